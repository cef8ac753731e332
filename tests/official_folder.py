"""A weights folder of Matrix-Game 2.0 in the official layout, at tiny size, with random numbers."""

import json

import torch
from safetensors.torch import save_file

from models.matrix_game_2 import checkpoint
from models.matrix_game_2.config import CONFIG_FOLDER, load_config
from models.matrix_game_2.weights import empty_clip, random_parts


def write_official_folder(folder):
    """What the real files carry besides is there as well: a prefix, dead keys, a text tower."""
    config = load_config("tiny")
    parts = random_parts(config, torch.device("cpu"), torch.float32, seed=3)
    files = checkpoint.files_of(folder, config.kind)
    files.network.parent.mkdir(parents=True)
    save_file({f"model.{name}": tensor for name, tensor in parts.network.state_dict().items()}, files.network)
    raw = json.loads((CONFIG_FOLDER / "tiny.json").read_text())["network"]
    files.network_config.write_text(
        json.dumps({**raw, "model_type": "i2v", "text_len": 512, "inject_sample_info": False})
    )
    torch.save(parts.vae.state_dict(), files.vae)
    tower = {f"visual.{name}": torch.randn(t.shape) * 0.1 for name, t in empty_clip(config).state_dict().items()}
    extra = {"visual.head": torch.zeros(32, 8), "textual.token_embedding.weight": torch.zeros(4, 4)}
    torch.save({**tower, **extra}, files.clip)
    return folder
