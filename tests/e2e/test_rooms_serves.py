"""The product as a newcomer starts it: `python -m server` with rooms and its default budgets, and a walk through it."""

import signal

from bench.identity_cases import Trial, run_case
from client.headless import walk
from client.wire import Visit
from models.rooms.model import RoomsModel
from tests.e2e.server_process import server_process


def test_a_walk_through_rooms_shows_frames_leaves_blocks_and_continues(tmp_path):
    with server_process(tmp_path) as (process, url):
        report = walk(Visit(url, world="attic", seed=900_400), "out-and-back", 8.0, give_up_s=30.0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert report.model == "rooms"
    assert report.frames_shown > 0
    assert report.lost == 0
    pictures = []
    with server_process(tmp_path) as (_, url):
        walk(Visit(url, world="attic"), "square", 2.0, give_up_s=30.0, on_picture=pictures.append)
    assert pictures[0].chunk > report.chunks // 2


def test_where_a_block_of_rooms_lives_never_changes_what_is_drawn(tmp_path):
    case = run_case(Trial("rooms", RoomsModel(), 450_000, lead_chunks=2, scratch=tmp_path), "tiers")
    assert case["differing_bytes"] == 0
    assert case["compared_bytes"] >= 450_000
    assert case["moved_bytes"] > 0
