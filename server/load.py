"""From settings to an engine: which model, which pager, with which budgets. Imports torch; the engine thread loads."""

from pathlib import Path

import torch

from models.base import WorldModel
from models.rooms.precision import preferred_dtype, preferred_threads
from models.warm_up import warm_up
from server.config import Settings, usable_cores
from server.engine import Engine, Limits, Progress
from server.pager.pager import Budgets, Pager
from server.pager.recall_buffer import RecallBuffer
from server.worlds import Worlds


def make_engine(settings: Settings) -> Engine:
    """A started engine. Loading goes on in its thread; a failure is told by `engine.failure`."""

    def load(progress: Progress) -> tuple[WorldModel, Pager, RecallBuffer]:
        progress(f"loading the {settings.model} model", 0.1)
        model = load_model(settings)
        progress("making room for blocks", 0.7)
        pager, buffer = make_pager(model, Budgets(settings.gpu_bytes, settings.dram_bytes, settings.nvme_bytes))
        warm_up(model, lambda share: progress("drawing first chunks", 0.8 + 0.2 * share))
        return model, pager, buffer

    engine = Engine(
        load,
        Worlds(Path(settings.worlds)),
        Limits(autosave_s=settings.autosave_s, seed=settings.seed, kept_bytes=settings.kept_bytes),
    )
    engine.start()
    return engine


def make_pager(model: WorldModel, budgets: Budgets) -> tuple[Pager, RecallBuffer]:
    """The pager for a model's blocks, and the buffer that the engine decodes a recall into."""
    pager = Pager(
        model.kv_spec,
        model.fingerprint,
        budgets,
        max_recall=model.max_recall,
        device=model.device,
        recall_dtype=model.dtype,
    )
    return pager, pager.recall_buffer()


def torch_threads(settings: Settings) -> int:
    """How many threads torch computes with: as many as are asked for, else as many as the model is worth."""
    if settings.threads:
        return settings.threads
    if settings.model == "matrix-game-2":
        return usable_cores()
    if settings.model == "rooms":
        return min(usable_cores(), preferred_threads(preferred_dtype(torch.device("cpu"))))
    return 1


def load_model(settings: Settings) -> WorldModel:
    """The model that the settings name."""
    if settings.model == "plain":
        from models.plain import PlainModel  # noqa: PLC0415 - only the model that is asked for is imported

        return PlainModel()
    if settings.seed_image is not None and settings.model != "matrix-game-2":
        raise ValueError(f"--seed-image: {settings.model} begins from a seed and takes no picture")
    if settings.model == "matrix-game-2":
        from models.matrix_game_2.conditioning import read_seed_image  # noqa: PLC0415 - only the model that is asked for
        from models.matrix_game_2.load import load_model as load_matrix_game_2  # noqa: PLC0415 - as above

        config = settings.model_settings or "universal"
        model = load_matrix_game_2(
            config, settings.weights, random_weights=settings.random_weights, compiled=settings.compile
        )
        if settings.seed_image is not None:
            model.seed_image = read_seed_image(settings.seed_image)
        return model
    if settings.random_weights or settings.model_settings or settings.compile:
        raise ValueError(
            "--random-weights, --model-config and --compile belong to matrix-game-2; rooms has weights and one size"
        )
    from models.rooms.model import RoomsModel  # noqa: PLC0415 - only the model that is asked for is imported

    return RoomsModel(settings.weights / "weights.safetensors") if settings.weights else RoomsModel()
