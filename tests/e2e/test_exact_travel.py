"""Jumps of an exact session while what it asked for is not drawn yet, over a real socket and the real engine."""

import asyncio

import pytest

from shared.protocol import ExactStep, Input, Restore, Rewind, SnapshotRequest, pack
from tests.e2e.whole_server import whole_server
from tests.e2e.wire_client import WireClient, close_all, receive

HANGS_S = 120.0  # nothing takes so long, on however busy a machine


async def order(client: WireClient, seq: int, num_chunks: int) -> None:
    controls = [(1, 2.0, 0.0)] * (num_chunks * client.welcome.frames_per_chunk)
    await client.socket.send(pack(ExactStep(seq=seq, controls=controls)))


async def until(client: WireClient, kind: str):
    """(the next message of this kind, the chunks of the frames before it); frames are acknowledged."""
    chunks = []
    async with asyncio.timeout(HANGS_S):
        while (message := await receive(client.socket)).type != kind:
            if message.type == "frame":
                chunks.append(message.chunk)
                client.seq += 1
                heard = Input(seq=client.seq, t_ms=0.0, keys=0, mouse_x=0.0, mouse_y=0.0, ack=message.id)
                await client.socket.send(pack(heard))
    return message, chunks


@pytest.mark.parametrize("jump", [Restore(name="door"), Rewind(chunks=2)])
async def test_what_a_jump_leaves_undrawn_is_said_to_be_done_and_the_next_order_begins_there(tmp_path, jump):
    with whole_server(tmp_path) as server:
        client = await WireClient.enter(server.url, world="attic", mode="exact")
        await order(client, 1, 4)
        await until(client, "done")
        await client.socket.send(pack(SnapshotRequest(name="door")))
        await until(client, "snapshot")
        await order(client, 2, 40)
        await order(client, 3, 200)  # none of it is acknowledged, so it is not drawn to its end
        await client.socket.send(pack(jump))
        head, _ = await until(client, "head")
        while head.why == "enter":
            head, _ = await until(client, "head")
        done, shown = await until(client, "done")
        while done.seq == 2:
            done, shown = await until(client, "done")
        assert (done.seq, shown) == (3, [head.chunk])
        await order(client, 4, 1)
        done, chunks = await until(client, "done")
        assert (done.seq, set(chunks)) == (4, {head.chunk + 1})
        await close_all()
