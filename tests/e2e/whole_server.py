"""The whole server in this process: the real engine, pager and shell on a real socket, with the plain model."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from models.plain import PlainModel
from server.access import Rules
from server.app import create_app, listen, make_server
from server.config import load_settings
from server.engine import Engine, Limits
from server.pager.budgets import buffer_bytes
from server.pager.layout import SlotLayout
from server.pager.move.disk import RealDisk
from server.pager.pager import Budgets, Pager
from server.worlds import Worlds


@dataclass
class Whole:
    """A running server."""

    engine: Engine
    port: int

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def small_budgets(model, nvme_slots=4_000) -> Budgets:
    """Budgets so small that a walk of seconds recalls from all three tiers."""
    layout = SlotLayout(model.kv_spec)
    slot, buffer = layout.slot_bytes, buffer_bytes(layout, model.max_recall, model.dtype)
    return Budgets(2 * model.max_recall * slot + buffer + 2 * slot, 12 * slot, nvme_slots * slot)


@contextmanager
def whole_server(
    folder: Path, *, model=None, budgets: Budgets | None = None, disk=None, autosave_s: float = 30.0
) -> Iterator[Whole]:
    model = model or PlainModel()

    def load(progress: Callable[[str, float], None]):
        pager = Pager(
            model.kv_spec,
            model.fingerprint,
            budgets or small_budgets(model),
            max_recall=model.max_recall,
            disk=disk or RealDisk(),
            recall_dtype=model.dtype,
        )
        return model, pager, pager.recall_buffer()

    engine = Engine(load, Worlds(folder), Limits(autosave_s=autosave_s))
    engine.start()
    listener = listen("127.0.0.1", 0)
    settings = load_settings({"worlds": str(folder)}, {}).settings
    server = make_server(create_app(settings, engine, Rules()))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="whole-server")
    thread.start()
    try:
        until_s = time.monotonic() + 120.0
        while not (server.started and engine.is_ready):
            assert time.monotonic() < until_s, engine.failure
            time.sleep(0.01)
        yield Whole(engine, listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30.0)
        assert not thread.is_alive()
