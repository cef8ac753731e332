"""The trainer for a GPU machine: a rehearsal on a CPU, with nothing installed beside torch and numpy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from models.rooms.checkpoint import load_weights
from models.rooms.dataset import training_batch
from models.rooms.network import RoomsNetwork
from models.rooms.patches import PatchBasis
from models.rooms.train_gpu import prepared_step, rendered_batch

ROOT = Path(__file__).parents[2]
MISSING = ("numba", "safetensors", "pydantic", "msgpack", "xxhash", "PIL", "scipy")


def without(folder):
    """An environment in which these packages cannot be imported, in this process and in its children."""
    for name in MISSING:
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} is not installed here')\n")
    return os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}


def train(tmp_path, *more):
    sizes = ["--samples", "1", "--width", "64", "--layers", "1", "--basis-worlds", "2", "--workers", "1"]
    flags = ["--minutes", "0.02", "--checkpoint-s", "0", "--device", "cpu", "--out", str(tmp_path / "out")]
    run = [sys.executable, "-m", "models.rooms.train_gpu", *sizes, *flags, *more]
    (tmp_path / "missing").mkdir(exist_ok=True)
    return subprocess.run(run, cwd=ROOT, env=without(tmp_path / "missing"), capture_output=True, text=True, check=False)


def saves(tmp_path):
    return [json.loads(line) for line in (tmp_path / "out" / "saves.jsonl").read_text().splitlines()]


def test_it_trains_with_torch_and_numpy_alone_saves_and_goes_on(tmp_path):
    first = train(tmp_path)
    assert first.returncode == 0, first.stderr
    steps = [save["step"] for save in saves(tmp_path)]
    assert steps[-1] >= 1
    tensors, basis = load_weights(tmp_path / "out" / "weights.safetensors")
    RoomsNetwork(64, 1).load_state_dict(tensors)
    assert basis.directions.shape == (48, 192)
    assert (tmp_path / "out" / f"weights-{steps[-1]:06d}.safetensors").exists()

    second = train(tmp_path)
    assert second.returncode == 0, second.stderr
    assert f"step={steps[-1]} settings" in second.stderr
    assert saves(tmp_path)[-1]["step"] > steps[-1]


@pytest.mark.parametrize("step", [3, 4])
def test_a_batch_is_the_one_that_the_cpu_trainer_makes_of_this_step(step):
    generator = torch.Generator().manual_seed(0)
    directions = torch.linalg.qr(torch.randn(192, 48, generator=generator)).Q.T.contiguous()
    basis = PatchBasis(torch.zeros(192), directions, torch.ones(48))
    ours = rendered_batch(basis, *prepared_step(0, step, 2), torch.device("cpu"))
    theirs = training_batch(basis, 0, step, 2)
    assert ours.noise_seed == theirs.noise_seed
    assert torch.equal(ours.target_poses, theirs.target_poses)
    for name in ("memory", "targets"):
        ours_frames, theirs_frames = getattr(ours, name), getattr(theirs, name)
        assert ours_frames.shape == theirs_frames.shape
        if ours_frames.numel():
            assert np.abs((ours_frames - theirs_frames).numpy()).mean() < 0.02
