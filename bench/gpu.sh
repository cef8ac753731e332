#!/usr/bin/env bash
# Everything that a machine with a CUDA GPU shall answer, in under 10 minutes: parity, the speed of Matrix-Game 2.0 at
# full size with random weights and 0 to 5 recalled chunks, without and with torch.compile, 200 chunks at 1.2 s that
# recall from disk, and unpaced.
# Needs python with torch, numpy, xxhash, safetensors, this repository, and 40 GB on the disk that is measured.
#
#   bench/gpu.sh [--dry] [OUT]     --dry: tiny sizes on whatever there is, to see that it runs
#   PYTHON=python3  FOLDER=.       the interpreter, and a folder on the disk to measure
set -uo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
FOLDER=${FOLDER:-.}
CONFIG=universal REPEATS=5 CHUNKS=200 CHUNK_MS=1200 UNPACED_S=50
if [ "${1:-}" = --dry ]; then
  shift
  CONFIG=tiny REPEATS=1 CHUNKS=30 CHUNK_MS=150 UNPACED_S=10
elif ! "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "no CUDA GPU that torch can use; bench/gpu.sh --dry runs without one" >&2
  exit 2
fi
OUT=${1:-gpu-report}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)

# the recorded case of the picture needs Pillow, and is left out where there is none
GOLDEN=$(mktemp -d)
trap 'rm -rf "$GOLDEN"' EXIT
cp tests/golden/matrix_game_2/* "$GOLDEN"
"$PYTHON" -c 'import PIL' 2>/dev/null || rm "$GOLDEN"/i_image.*

step() { # NAME LIMIT_S COMMAND...: exit status and seconds go to a file beside the report
  local name=$1 limit=$2 began=$SECONDS status
  shift 2
  echo "== $name"
  timeout "$limit" "$@" >"$OUT/$name.log" 2>&1
  status=$?
  tail -n 3 "$OUT/$name.log"
  echo "$name $status $((SECONDS - began))" >>"$OUT/steps.txt"
}

rm -f "$OUT"/*.json "$OUT/steps.txt"
step parity 40 "$PYTHON" -m models.matrix_game_2.parity "$GOLDEN" --json "$OUT/parity.json"
for way in model compiled; do
  step "$way" 110 "$PYTHON" -m bench model --model matrix-game-2 --random-weights --model-config "$CONFIG" \
    --repeats "$REPEATS" $([ "$way" = compiled ] && echo --compile) --json "$OUT/$way.json"
done
step walk 330 "$PYTHON" -m bench.gpu_walk --model-config "$CONFIG" --chunks "$CHUNKS" --chunk-ms "$CHUNK_MS" \
  --unpaced-s "$UNPACED_S" --folder "$FOLDER" --json "$OUT/walk.json"

"$PYTHON" - "$OUT" <<'PY'
import json, pathlib, sys

out = pathlib.Path(sys.argv[1])
steps = {name: {"status": int(status), "seconds": int(seconds)}
         for name, status, seconds in (line.split() for line in (out / "steps.txt").read_text().splitlines())}
parts = {name: json.loads((out / f"{name}.json").read_text()) for name in steps if (out / f"{name}.json").exists()}
report = {"ok": all(not step["status"] for step in steps.values()), "random_weights": True, "steps": steps, **parts}
(out / "gpu.json").write_text(json.dumps(report, indent=1) + "\n")
print(json.dumps({"ok": report["ok"], "steps": steps, "report": str(out / "gpu.json")}, indent=1))
sys.exit(not report["ok"])
PY
