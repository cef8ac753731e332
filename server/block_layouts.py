"""Which block layout a world's slab has, found without loading a model: of those that this build knows, the one that
gives the slab's own fingerprint. Imports torch. Any thread.
"""

from collections.abc import Iterator

from models.base import KVSpec
from server.pager.header import block_fingerprint
from server.pager.layout import SlotLayout


def layout_for(model: str, model_fingerprint: str, slab_fingerprint: bytes) -> SlotLayout | None:
    """The layout of the blocks that a model of this fingerprint left; None when this build does not know it."""
    for spec in _known_specs(model):
        layout = SlotLayout(spec)
        if block_fingerprint(model_fingerprint, layout) == slab_fingerprint:
            return layout
    return None


def _known_specs(model: str) -> Iterator[KVSpec]:
    if model == "rooms":
        from models.rooms.model import RoomsModel  # noqa: PLC0415 - only the model that is asked for is imported

        yield RoomsModel.kv_spec
    elif model == "matrix-game-2":
        from models.matrix_game_2.config import CONFIG_FOLDER, load_config  # noqa: PLC0415 - as above

        for path in sorted(CONFIG_FOLDER.glob("*.json")):
            config = load_config(path.stem)
            network = config.network
            yield KVSpec(network.num_layers, config.chunk_tokens, network.dim, network.head_width)
    elif model == "plain":
        from models.plain import PlainModel  # noqa: PLC0415 - as above

        yield PlainModel().kv_spec
