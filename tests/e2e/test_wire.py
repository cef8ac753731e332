"""The shell over real sockets: what a client sees of frames, credit, limits and the end."""

import itertools
import time

from tests.e2e.conftest import Running
from tests.e2e.tiny_engine import FPS, decode_numbers
from tests.e2e.wire_client import WireClient, pixels_of


async def test_a_fast_client_gets_every_frame_in_order_and_on_time(server: Running) -> None:
    client = await WireClient.enter(server.url, world="fast")
    frames, times_s = [], []
    for _ in range(40):
        frames.append(await client.next_frame())
        times_s.append(time.monotonic())
    assert [frame.id for frame in frames] == list(range(40))
    assert [decode_numbers(pixels_of(frame))[1] for frame in frames] == list(range(40))
    gaps_s = sorted(b - a for a, b in itertools.pairwise(times_s))
    assert gaps_s[len(gaps_s) * 95 // 100] <= 1.5 / FPS
    await client.close()
