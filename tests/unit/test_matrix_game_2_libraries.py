"""Our VAE and CLIP tower against the libraries that know the same networks, where these are installed."""

import json

import pytest
import torch
from safetensors.torch import load_file

from models.matrix_game_2.clip import ClipTower
from models.matrix_game_2.vae import MEAN, STD, VAE
from tests.golden.test_matrix_game_2_parity import GOLDEN

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the libraries warn while they are imported


def test_the_vae_decodes_a_stream_as_diffusers_does():
    diffusers = pytest.importorskip("diffusers")
    from diffusers.loaders.single_file_utils import convert_wan_vae_to_diffusers

    recorded = load_file(GOLDEN / "g_vae.safetensors")
    weights = {name[6:]: tensor for name, tensor in recorded.items() if name.startswith("state.")}
    ours = VAE(len(weights["encoder.conv1.bias"]))
    ours.load_state_dict(weights)
    theirs = diffusers.AutoencoderKLWan(base_dim=len(weights["encoder.conv1.bias"]))
    theirs.load_state_dict(convert_wan_vae_to_diffusers(dict(weights)))
    latents = recorded["latents"][0]  # [Z, F, h, w]
    state, frames = (), []
    for latent in latents.unbind(1):
        part, state = ours.decode_next(latent, state)
        frames.append(part)
    scaled = latents * torch.tensor(STD).view(-1, 1, 1, 1) + torch.tensor(MEAN).view(-1, 1, 1, 1)
    with torch.no_grad():
        whole = theirs.decode(scaled[None]).sample[0].transpose(0, 1)  # [T, 3, H, W]
    assert (torch.cat(frames) - whole).abs().max() < 2e-5
    print("diffusers against the recording:", float((whole[:9] - recorded["decode.c0"][0]).abs().max()))


def test_the_clip_tower_is_that_of_transformers():
    transformers = pytest.importorskip("transformers")
    recorded = load_file(GOLDEN / "j_clip.safetensors")
    facts = json.loads((GOLDEN / "j_clip.json").read_text())
    weights = {name[7:]: tensor for name, tensor in recorded.items() if name.startswith("visual.")}
    dim = weights["cls_embedding"].shape[-1]
    ours = ClipTower(dim, facts["heads"], facts["layers"], facts["image_size"], facts["patch_size"])
    ours.load_state_dict({name: tensor for name, tensor in weights.items() if name in ours.state_dict()})
    config = transformers.CLIPVisionConfig(
        hidden_size=dim,
        intermediate_size=4 * dim,
        num_hidden_layers=facts["layers"],
        num_attention_heads=facts["heads"],
        image_size=facts["image_size"],
        patch_size=facts["patch_size"],
        hidden_act="gelu",
    )
    theirs = transformers.CLIPVisionModel(config)
    theirs.load_state_dict(renamed(weights), strict=False)
    with torch.no_grad():
        tokens = theirs(recorded["pixels"], output_hidden_states=True).hidden_states[-2][0]
    assert (ours(recorded["pixels"][0]) - tokens).abs().max() < 1e-5


def renamed(weights):
    """The official names as transformers 5 has them (spec 10)."""
    out = {
        "embeddings.class_embedding": weights["cls_embedding"].flatten(),
        "embeddings.patch_embedding.weight": weights["patch_embedding.weight"],
        "embeddings.position_embedding.weight": weights["pos_embedding"][0],
    }
    plain = {
        "pre_norm": "pre_layrnorm",
        "post_norm": "post_layernorm",
        "norm1": "layer_norm1",
        "norm2": "layer_norm2",
        "attn.proj": "self_attn.out_proj",
        "mlp.0": "mlp.fc1",
        "mlp.2": "mlp.fc2",
    }
    for name, tensor in weights.items():
        module, _, leaf = name.rpartition(".")
        head, _, part = module.partition("transformer.")
        index, _, inner = part.partition(".")
        prefix = f"encoder.layers.{index}." if part else ""
        if inner == "attn.to_qkv":
            for letter, third in zip("qkv", tensor.chunk(3), strict=True):
                out[f"{prefix}self_attn.{letter}_proj.{leaf}"] = third
        elif (inner or head) in plain:
            out[f"{prefix}{plain[inner or head]}.{leaf}"] = tensor
    return out
