"""bench/gpu.sh: it runs where there is torch and little else, and its dry path runs here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ABSENT = "PIL numba pydantic msgpack fastapi starlette websockets aiofiles typer matplotlib pygame"
SCRIPT = """
import sys
import bench.gpu_walk, bench.model, bench.model_rows, models.matrix_game_2.parity.__main__
print(*(name for name in sys.argv[1].split() if name in sys.modules))
"""


def test_it_needs_nothing_beyond_torch_numpy_xxhash_and_safetensors():
    command = [sys.executable, "-c", SCRIPT, ABSENT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.slow
def test_its_dry_path_runs_and_writes_one_report(tmp_path):
    environment = {**os.environ, "PYTHON": sys.executable, "FOLDER": str(tmp_path)}
    subprocess.run(["bash", "bench/gpu.sh", "--dry", str(tmp_path / "out")], cwd=ROOT, env=environment, check=True)
    report = json.loads((tmp_path / "out" / "gpu.json").read_text())
    assert report["ok"]
    assert report["parity"]["ok"]
    assert [row["recalled"] for row in report["model"]["rows"]] == [0, 1, 2, 3, 4, 5]
    assert report["model"]["random_weights"]
    assert report["compiled"]["compiled"]
    assert not report["model"]["compiled"]
    assert report["model"]["rows"][0]["memory_share"] == 0.0 < report["model"]["memory_share"] < 1.0
    for name in ("paced", "unpaced"):
        assert report["walk"][name]["hits"]["nvme"] > 60
        assert report["walk"][name]["lost"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
