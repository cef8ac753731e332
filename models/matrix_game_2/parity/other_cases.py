"""Cases f to j and the official key lists: schedule, VAE, action rows, image, CLIP, names and shapes."""

import hashlib
import random

import numpy as np
import torch

from models.matrix_game_2.actions import bench_rows, typed_rows, typed_vectors
from models.matrix_game_2.clip import ClipTower, clip_pixels
from models.matrix_game_2.conditioning import cropped, image_latents, to_frame
from models.matrix_game_2.config import network_from_json
from models.matrix_game_2.parity.case import Case, CaseError
from models.matrix_game_2.scheduler import add_noise, make_schedule, x0_from_flow
from models.matrix_game_2.transformer import Transformer, sinusoid
from models.matrix_game_2.vae import VAE, grouped
from models.matrix_game_2.vae_layers import SlotTensors

X0_NOISE_SHARE = 0.7  # case f's flow is 0.7 noise - x0, from its manifest text
TAIL_LATENTS = 34  # enough latents for the encoding of grey to have become constant (29, spec 8)
PIXEL_STRIDE = 8  # case i keeps every eighth pixel
CLIP_PX = 224
FRAMES_PER_CHUNK = 3


def scheduler(case: Case) -> None:
    """Case f."""
    shift = float(case.manifest.get("timestep_shift", 5.0))
    x0, noise = case.given("x0"), case.given("noise")
    for name, step_list in case.manifest["lists"].items():
        schedule = make_schedule(tuple(step_list), shift)
        indexes = [schedule.index_at(step) for step in schedule.steps]
        case.compare(f"{name}.warped", schedule.steps)
        case.compare(f"{name}.index", torch.tensor(indexes), 0.0)
        case.compare(f"{name}.sigma", schedule.sigmas[indexes])
        for i, step in enumerate(schedule.steps):
            noisy = add_noise(x0, noise, schedule.sigma_at(step))
            case.compare(f"{name}.add_noise{i}", noisy)
            flow = X0_NOISE_SHARE * noise - x0
            case.compare(f"{name}.x0_from_flow{i}", x0_from_flow(flow, noisy, schedule.sigma_at(step)))
    schedule = make_schedule((1000,), shift)
    case.compare("sigmas", schedule.sigmas)
    case.compare("timesteps", schedule.timesteps)
    sigma = schedule.sigma_at(torch.tensor(0.0))
    case.compare("t0.sigma", sigma[None])
    case.compare("t0.add_noise", add_noise(x0, noise, sigma))
    positions = case.given("emb_positions")
    for name in [key for key in case.tensors if key.startswith("emb_") and key != "emb_positions"]:
        case.compare(name, sinusoid(positions, int(name[4:])))


def vae(case: Case) -> None:
    """Case g: streaming decode chunk by chunk, encode of picture and video."""
    weights = {name[6:]: case.given(name) for name in case.tensors if name.startswith("state.")}
    with torch.device("meta"):
        model = VAE(len(weights["encoder.conv1.bias"]))
    model.load_state_dict(weights, strict=True, assign=True)
    _decode(case, model)
    picture = case.given("image")[0, :, 0]  # [3, H, W]
    num_latents = case.given("cond_latents").shape[2]
    latents = image_latents(model, picture, max(TAIL_LATENTS, num_latents))
    case.compare("cond_latents", latents[None, :, :num_latents])
    case.compare("image_only_latent", image_latents(model, picture, 1)[None])
    case.compare_present("cond_latents_tail", latents[None, :, -1:])
    video = case.given("video")[0].transpose(0, 1)  # [T, 3, H, W]
    case.compare("video_latents", torch.stack(list(model.encode(grouped(video))), dim=1)[None])


def _decode(case: Case, model: VAE) -> None:
    latents = case.given("latents")[0]  # [Z, F, h, w]
    state: SlotTensors = ()
    at, chunk = 0, 0
    while f"decode.c{chunk}" in case.tensors:
        frames: list[torch.Tensor] = []
        while sum(map(len, frames)) < case.given(f"decode.c{chunk}").shape[1]:
            decoded, state = model.decode_next(latents[:, at], state)
            frames.append(decoded)
            at += 1
        case.compare(f"decode.c{chunk}", torch.cat(frames)[None])
        _decoder_state(case, chunk, state)
        chunk += 1


def _decoder_state(case: Case, chunk: int, state: SlotTensors) -> None:
    """The recorded shape and statistics of every slot after a chunk."""
    records = case.manifest.get("feat_cache_after_chunk")
    if not records:
        return
    case.exact(f"slots after c{chunk}", len(state), len(records[chunk]))
    for index, (tensor, record) in enumerate(zip(state, records[chunk], strict=True)):
        if isinstance(record, dict) and "shape" in record:
            case.exact(f"slot {index} after c{chunk}", list(tensor.shape), record["shape"])
            case.stats(f"slot {index} after c{chunk}", tensor, record["stats"])


def actions(case: Case) -> None:
    """Case h: typed keys to rows, and upstream's random rows."""
    for kind, inputs in case.manifest["inputs"].items():
        typed = [typed_vectors(kind, entry["input"]) for entry in inputs]
        for chunk, entry in enumerate(inputs):
            case.exact(f"{kind} typed {chunk}", typed[chunk][0], entry["keyboard"])
            case.exact(f"{kind} typed {chunk} mouse", typed[chunk][1], entry.get("mouse"))
            keyboard = typed_rows([pair[0] for pair in typed[: chunk + 1]], FRAMES_PER_CHUNK)
            case.compare_present(f"{kind}.c{chunk}.keyboard", keyboard[None])
            mouse = typed_rows([pair[1] or [] for pair in typed[: chunk + 1]], FRAMES_PER_CHUNK)
            case.compare_present(f"{kind}.c{chunk}.mouse", mouse[None])
    rng = random.Random(case.manifest.get("seed"))  # noqa: S311  the recorded procedure, no secret
    for name, kind in (("universal", "universal"), ("gta", "gta_drive"), ("templerun", "templerun")):
        if f"bench.{name}.keyboard" in case.tensors:
            keyboard, mouse = bench_rows(kind, len(case.given(f"bench.{name}.keyboard")), rng)
            case.compare(f"bench.{name}.keyboard", keyboard)
            if mouse is not None:
                case.compare_present(f"bench.{name}.mouse", mouse)


def synthetic_picture(width: int, height: int, k: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Case i's picture `[H, W, 3]`, by the formula of its manifest."""
    x = np.arange(width, dtype=np.int64)[None, :]
    y = np.arange(height, dtype=np.int64)[:, None]
    red = (x * (3 + k) + y * 5) % 256
    green = ((x * x) // 7 + y * (2 + k)) % 256
    blue = ((x // 9 + y // 13) % 2) * 200 + (x + y) % 50
    return np.stack([red, green, blue], axis=-1).astype(np.uint8)


def image(case: Case) -> None:
    """Case i: crop and resize bit for bit, then CLIP's input."""
    for name, record in case.manifest["images"].items():
        width, height = (int(side) for side in name.split("x"))
        kept = case.given(f"{name}.pixels_every8")
        frame_hw_px = (kept.shape[-2] * PIXEL_STRIDE, kept.shape[-1] * PIXEL_STRIDE)
        pixels = cropped(synthetic_picture(width, height, record["k"]), frame_hw_px)
        digest = hashlib.sha256(np.ascontiguousarray(pixels.transpose(2, 0, 1)).tobytes()).hexdigest()
        case.exact(f"{name} sha256", digest, record["sha256_uint8_chw"])
        frame = to_frame(pixels)  # [3, H, W]
        case.compare(f"{name}.pixels_every8", frame[None, :, None, ::PIXEL_STRIDE, ::PIXEL_STRIDE])
        clip = clip_pixels(frame, CLIP_PX)  # [3, 224, 224]
        case.compare(f"{name}.clip_every8", clip[None, :, ::PIXEL_STRIDE, ::PIXEL_STRIDE])
        case.stats(f"{name} pixels", frame, record["stats"])
        case.stats(f"{name} clip", clip, record["clip_stats"])


def clip(case: Case) -> None:
    """Case j: the vision tower's tokens before its last block."""
    manifest = case.manifest
    weights = {name[7:]: case.given(name) for name in case.tensors if name.startswith("visual.")}
    layers = int(manifest["layers"])
    dim, mlp_dim = weights["cls_embedding"].shape[-1], len(weights["transformer.0.mlp.0.bias"])
    with torch.device("meta"):
        tower = ClipTower(dim, manifest["heads"], layers, manifest["image_size"], manifest["patch_size"], mlp_dim)
    wanted = set(tower.state_dict())
    tower.load_state_dict({name: w for name, w in weights.items() if name in wanted}, strict=True, assign=True)
    case.compare("tokens", tower(case.given("pixels")[0])[None])


def official_keys(case: Case) -> None:
    """An instance without storage has exactly the keys and shapes of the official file."""
    keys = case.manifest["keys"]
    with torch.device("meta"):
        if "config" in case.manifest:
            clip_dim = keys["img_emb.proj.0.weight"]["shape"][0]
            ours = Transformer(network_from_json(case.manifest["config"], clip_dim)).state_dict()
        elif "encoder.conv1.bias" in keys:
            ours = VAE(keys["encoder.conv1.bias"]["shape"][0]).state_dict()
        else:
            raise CaseError(f"{case.name}: a key list of an unknown file")
    theirs = {name: tuple(entry["shape"]) for name, entry in keys.items()}
    differing = {name for name, tensor in ours.items() if theirs.get(name) != tuple(tensor.shape)}
    case.exact("keys and shapes", sorted(differing | (set(theirs) - set(ours))), [])
    case.exact("parameters", sum(tensor.numel() for tensor in ours.values()), case.manifest["num_params"])
