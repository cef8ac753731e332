"""`python -m bench record`: a real session becomes a trace, and what it says of blocks survives the file."""

import json

import pytest

from bench.record import chunks_of, main, record
from models.plain import PlainModel
from server.moments import Moment
from server.trace import TraceError, read_trace, write_trace
from shared.controls import Controls, Key
from shared.pose import Pose


def moment(moment_id, *, recalled=(), has_block=True, stale=False):
    controls = (Controls(Key.FORWARD, 3.0, 0.0), Controls(Key.FORWARD, 1.0, -2.0), Controls(Key.LEFT))
    poses = (Pose(z_m=float(moment_id)),)
    return Moment(moment_id, moment_id - 1, moment_id, 7, controls, poses, recalled, stale, False, (), has_block)


def test_blocks_are_named_by_their_place_in_the_trace():
    chunks = chunks_of([moment(10), moment(11, has_block=False), moment(12, recalled=(10,))])
    assert [chunk.wanted for chunk in chunks] == [(), (), (0,)]
    assert [chunk.leaves_block for chunk in chunks] == [True, False, True]
    assert chunks[0].keys == Key.FORWARD
    assert chunks[0].mouse == (4.0, -2.0)
    assert chunks[2].pose == Pose(z_m=12.0)


def test_a_walk_that_lacked_a_block_is_no_trace():
    with pytest.raises(TraceError, match="without all that it wanted"):
        chunks_of([moment(0), moment(1, stale=True)])


def test_a_chunk_without_a_block_says_so_in_the_file(tmp_path):
    path = tmp_path / "walk.jsonl"
    chunks = chunks_of([moment(0), moment(1, has_block=False)])
    path.write_text(write_trace(chunks))
    assert [json.loads(line).get("block") for line in path.read_text().splitlines()] == [None, False]
    assert read_trace(str(path)) == chunks
    path.write_text('{"pose": [0, 0, 0, 0, 0], "block": 1}\n')
    with pytest.raises(TraceError, match="block is true or false"):
        read_trace(str(path))


def test_a_real_session_is_recorded():
    chunks = record(PlainModel(), "out-and-back", 24, seed=3)
    assert len(chunks) > 24  # those that the world began with come first
    assert any(chunk.wanted for chunk in chunks)
    assert len({chunk.pose for chunk in chunks}) > 12
    assert all(block < at for at, chunk in enumerate(chunks) for block in chunk.wanted or ())


def test_the_command_writes_a_file_a_route(tmp_path):
    assert main(["--model", "plain", "--routes", "square", "--chunks", "8", "--out", str(tmp_path)]) == 0
    assert len(read_trace(str(tmp_path / "plain-square.jsonl"))) > 8
    assert main(["--model", "plain", "--routes", "nowhere", "--chunks", "8", "--out", str(tmp_path)]) == 2
