"""Addresses, inputs, mailboxes and what the player is told: everything small and pure."""

import subprocess
import sys
from io import BytesIO

import pytest
from PIL import Image
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from client.address import AddressError, websocket_url
from client.inputs import Inputs
from client.mailbox import MAX_FRAMES, Arrivals, ControlsBox, Steering
from client.picture import decode
from client.rehearsal import paint_numbers, read_numbers
from client.status import Phase, Status, card_for, is_passing, pause_words
from client.stepping import Stepping, steps_for
from client.wire import Trouble, Visit, trouble_of
from shared.controls import Controls, Key
from shared.pose import Pose
from shared.protocol import Frame, ProtocolError


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("ws://127.0.0.1:8765/ws", "ws://127.0.0.1:8765/ws"),
        ("192.168.1.5", "ws://192.168.1.5:8765/ws"),
        (" box:9000 ", "ws://box:9000/ws"),
        ("http://box:9000/", "ws://box:9000/ws"),
        ("https://box", "wss://box:443/ws"),
        ("wss://box:1/other", "wss://box:1/other"),
        ("ws://[::1]:8765", "ws://[::1]:8765/ws"),
    ],
)
def test_an_address_may_be_typed_in_many_ways(typed: str, url: str) -> None:
    assert websocket_url(typed) == url


@pytest.mark.parametrize("typed", ["ftp://box", "ws://box:port", "ws://", "ws://box/ws?token=secret", "ws://u:p@box"])
def test_a_bad_address_is_refused_in_words(typed: str) -> None:
    with pytest.raises(AddressError):
        websocket_url(typed)


def test_inputs_go_out_on_change_and_else_ten_times_a_second() -> None:
    inputs = Inputs()
    still = Steering()
    sent = [tick for tick in range(60) if inputs.next(still, -1, tick / 60.0) is not None]
    assert 9 <= len(sent) <= 11
    assert inputs.next(Steering(Key.FORWARD), -1, 1.0) is not None
    assert inputs.next(Steering(Key.FORWARD), 0, 1.01) is not None  # a new acknowledgement is a change
    assert inputs.next(Steering(Key.FORWARD), 0, 1.02) is None


def test_mouse_sums_begin_anew_at_a_welcome_and_numbers_go_on() -> None:
    inputs = Inputs()
    first = inputs.next(Steering(mouse_x=5.0), -1, 0.0)
    inputs.welcome(Steering(mouse_x=5.0))
    second = inputs.next(Steering(mouse_x=8.0), -1, 0.2)
    assert first is not None
    assert second is not None
    assert (first.mouse_x, second.mouse_x) == (5.0, 3.0)
    assert second.seq == first.seq + 1
    assert inputs.sent_at_s(second.seq) == 0.2


def test_a_hanging_window_releases_its_keys_but_keeps_its_mouse_travel() -> None:
    box = ControlsBox()
    box.steer(Key.FORWARD, 3.0, 0.0, 1, now_s=10.0)
    box.steer(Key.FORWARD, 4.0, 1.0, 1, now_s=10.1)
    assert box.read(10.2) == Steering(Key.FORWARD, 7.0, 1.0, 1)
    assert box.read(10.5) == Steering(Key(0), 7.0, 1.0, 1)


def frame(data: bytes, codec: str = "png") -> Frame:
    """A frame message around some bytes."""
    facts = {"id": 1, "pts_s": 0.1, "chunk": 0, "index": 1, "pose": [0.0] * 5, "input_seq": -1, "held_ms": 0.0,
             "seeded": False, "codec": codec, "data": data}  # fmt: skip
    return Frame.model_validate(facts)


def compressed(codec: str) -> bytes:
    """The bytes of a picture that says 9 and 4."""
    data = BytesIO()
    Image.fromarray(paint_numbers(Pose(), 9, 4)).save(data, codec, quality=80)
    return data.getvalue()


@pytest.mark.parametrize("codec", ["png", "jpeg"])
def test_a_picture_survives_its_codec(codec: str) -> None:
    assert read_numbers(decode(frame(compressed(codec), codec), 96, 64).rgb) == (9, 4)


@pytest.mark.parametrize("data", [b"", b"nonsense", compressed("png")[:100], compressed("jpeg")])
def test_a_damaged_picture_is_the_peers_fault(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(frame(data), 96, 64)


def test_a_picture_of_another_size_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(ProtocolError, match="96x64, not 640x352"):
        decode(frame(compressed("jpeg"), "jpeg"), 640, 352)


def test_a_full_mailbox_keeps_the_newest_frames_and_says_so() -> None:
    arrivals = Arrivals()
    picture = decode(frame(compressed("png")), 96, 64)
    assert arrivals.has_room()
    for index in range(MAX_FRAMES + 5):
        arrivals.put_frame(picture, float(index))
    assert not arrivals.has_room()
    _, frames = arrivals.drain()
    assert [at_s for _, at_s in frames] == [float(index) for index in range(5, MAX_FRAMES + 5)]


def test_exact_steps_are_whole_chunks_and_bounded() -> None:
    steps = steps_for([Controls(Key.FORWARD)] * 1_201, frames_per_chunk=12)
    assert [len(step.controls) for step in steps] == [504, 504, 204]
    assert [step.seq for step in steps] == [0, 1, 2]
    assert steps[-1].controls[-1] == (0, 0.0, 0.0)


def test_a_window_in_exact_mode_asks_for_one_chunk_at_a_time() -> None:
    stepping = Stepping()
    stepping.welcome(Steering(), 2)
    step = stepping.next(Steering(Key.FORWARD, 10.0, 0.0))
    assert step is not None
    assert step.controls == [(1, 5.0, 0.0)] * 2
    assert stepping.next(Steering()) is None
    stepping.done(step.seq)
    assert stepping.next(Steering(mouse_x=10.0)) is not None


def test_a_refusal_is_final_unless_it_passes_by_itself() -> None:
    assert is_passing("busy")
    assert not is_passing("unauthorized")
    closed = ConnectionClosedError(Close(4503, "busy"), None)
    assert trouble_of(closed) == Trouble("", "busy")
    assert trouble_of(ConnectionClosedError(Close(4426, "version"), None)).is_refusal
    busy = card_for(Status(Phase.LOST, "ws://box", "", code="busy", attempt=1, retry_s=2.0), 0.0)
    assert busy is not None
    assert busy.title == "The server is busy"


def test_every_stage_tells_what_happened_and_what_to_do() -> None:
    url = "ws://box:8765/ws"
    assert card_for(Status(Phase.WALKING, url)) is None
    refused = card_for(Status(Phase.REFUSED, url, "token missing", code="unauthorized"))
    lost = card_for(Status(Phase.LOST, url, "The connection broke.", attempt=2, retry_s=3.0, has_walked=True), 1.0)
    dead = card_for(Status(Phase.LOST, url, "Nothing listens there.", attempt=1, retry_s=0.2))
    loading = card_for(Status(Phase.LOADING, url, "drawing first chunks", share=0.4))
    assert refused is not None
    assert "--token" in " ".join(refused.lines)
    assert lost is not None
    assert "in 2 s (attempt 2)" in " ".join(lost.lines)
    assert dead is not None
    assert "make serve" in " ".join(dead.lines)
    assert loading is not None
    assert loading.share == 0.4
    assert loading.lines == ("The server is drawing first chunks.",)
    starting = card_for(Status(Phase.STARTING, url))
    assert starting is not None
    assert starting.is_busy
    assert "No server" not in starting.title


def test_a_pause_says_why() -> None:
    assert pause_words("") == ""
    assert "P goes on" in pause_words("player")
    assert "weather" in pause_words("weather")


def test_a_token_is_not_shown_when_a_visit_is_printed() -> None:
    assert "secret" not in repr(Visit("ws://box", token="secret"))


def test_client_and_shared_leave_torch_out() -> None:
    code = (
        "import sys, pkgutil, importlib, client, shared\n"
        "for package in (client, shared):\n"
        "    for module in pkgutil.iter_modules(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        "print(sorted({'torch', 'server', 'models'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "[]"


def test_headless_walking_leaves_pygame_out() -> None:
    code = "import sys, client.__main__, client.headless\nprint('pygame' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "False"
