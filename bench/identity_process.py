"""Walking on in another process: what a restart is, and what another machine is. Owns the hand-over of the frames."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from models.base import Pixels


def walk_on_elsewhere(model_name: str, worlds: Path, num_bytes: int, lead_chunks: int) -> tuple[list[Pixels], int]:
    """The frames of the walk onward in the world that lies in `worlds`, and the bytes that moved for it."""
    with tempfile.TemporaryDirectory(prefix="identity-out-", dir=worlds.parent) as out:
        words = [model_name, str(worlds), str(num_bytes), str(lead_chunks), out]
        subprocess.run(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "bench.identity_process", *words], check=True, cwd=Path(__file__).parents[1]
        )
        frames = np.load(Path(out) / "frames.npy")
        report = json.loads((Path(out) / "report.json").read_text())
    return list(frames), int(report["moved_bytes"])


def main(model_name: str, worlds: Path, num_bytes: int, lead_chunks: int, out: Path) -> None:
    """The other process."""
    torch.set_grad_enabled(False)
    from bench.identity_cases import WORLD, Trial, load, moved, start, walked  # noqa: PLC0415 - it imports this module

    trial = Trial(model_name, load(model_name), num_bytes, lead_chunks)
    with start(trial.model, trial.budgets, worlds, seed=0, world=WORLD) as drive:
        frames = walked(drive, trial.controls[1])
        moved_bytes = moved(drive)
    np.save(out / "frames.npy", np.stack(frames))
    (out / "report.json").write_text(json.dumps({"moved_bytes": moved_bytes}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
