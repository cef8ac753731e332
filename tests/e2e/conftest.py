"""A real server on a real socket: around the tiny engine (`server`), or with the real one (`served`)."""

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

import pytest

from server.access import Rules
from server.app import create_app, listen, make_server
from server.config import load_settings
from tests.e2e.tiny_engine import TinyEngine
from tests.e2e.whole_server import Whole, whole_server
from tests.e2e.wire_client import close_all

TOKEN = "a-token-of-some-length"


@dataclass
class Running:
    """A server that runs in a thread."""

    engine: TinyEngine
    port: int
    stop: Callable[[], None] = field(default=lambda: None)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def run_server(rules: Rules) -> Running:
    engine = TinyEngine()
    listener = listen("127.0.0.1", 0)
    server = make_server(create_app(load_settings({}, {}).settings, engine, rules))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="tiny-server")
    thread.start()
    while not server.started:
        time.sleep(0.005)

    def stop() -> None:
        server.should_exit = True
        thread.join(15.0)
        assert not thread.is_alive()

    return Running(engine, listener.getsockname()[1], stop)


@pytest.fixture
async def no_socket_left_open() -> AsyncIterator[None]:
    yield
    await close_all()


@pytest.fixture
def server() -> Iterator[Running]:
    running = run_server(Rules())
    yield running
    running.stop()


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Running]:
    """For tests that leave the engine as it is."""
    running = run_server(Rules())
    yield running
    running.stop()


@pytest.fixture(scope="module")
def shared_token_server() -> Iterator[Running]:
    running = run_server(Rules(token=TOKEN))
    yield running
    running.stop()


@pytest.fixture
def token_server() -> Iterator[Running]:
    running = run_server(Rules(token=TOKEN))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """The whole server on the plain model, one for all tests of a file."""
    with whole_server(tmp_path_factory.mktemp("worlds")) as server:
        yield server
