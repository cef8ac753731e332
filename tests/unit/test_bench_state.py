"""`bench state` on the plain model, of which one knows what it looks at."""

import torch

from bench.components import component_bytes, corrupted, without
from bench.state import _starts, measure
from models.base import SavedState
from models.plain import PlainModel
from models.rooms.model import RoomsModel


def test_what_the_plain_model_looks_at_is_found_and_what_it_does_not_is_not():
    report = measure("plain", PlainModel(), 14)
    needed = {part["name"]: part["needed"] for part in report["components"]}
    assert report["repeats"]
    assert report["compared_bytes"] > 0
    assert needed["state: seed"]
    assert needed["state: chunk_index"]
    assert needed["state: pose"]
    assert needed["memory: the bank as a whole"]
    assert needed["memory: K,V"]
    assert needed["memory: side planes"]
    assert needed["memory: poses"]
    assert not needed["state: window"]  # it carries one, and never looks at it
    assert not needed["memory: footprints"]


def test_the_walk_is_taken_apart_where_every_part_of_it_is_there():
    """In rooms a chunk does not always wait to share a block."""
    with torch.no_grad():
        saved = _starts(RoomsModel())["walking"].saved
    assert "waiting" in saved.facts
    assert None not in saved.facts.values()


SAVED = SavedState(
    {"seed": 5, "held": True, "window": [{"start": 1, "poses": [[0.5, 1.5]]}, {"start": 2, "poses": [[2.5, 3.5]]}]},
    {"window.0.kv": torch.ones(2, 3), "window.1.kv": torch.ones(2, 3), "walls": torch.ones(4, dtype=torch.int32)},
)


def test_lists_are_one_component_each():
    assert component_bytes(SAVED) == {
        "window.kv": 48,
        "window.poses": 32,
        "walls": 16,
        "window.start": 16,
        "seed": 8,
        "held": 8,
    }


def test_one_component_is_emptied_and_the_rest_is_left_alone():
    hurt = without(SAVED, "window.kv")
    assert hurt.facts == SAVED.facts
    assert not hurt.tensors["window.0.kv"].any()
    assert not hurt.tensors["window.1.kv"].any()
    assert torch.equal(hurt.tensors["walls"], SAVED.tensors["walls"])
    assert without(SAVED, "window.poses").facts["window"][1] == {"start": 2, "poses": [[0.0, 0.0]]}


def test_a_corrupted_component_differs_in_every_value():
    assert (corrupted(SAVED, "walls").tensors["walls"] != 1).all()
    assert (corrupted(SAVED, "window.kv").tensors["window.1.kv"] != 1).all()
    facts = corrupted(SAVED, "seed").facts
    assert (facts["seed"], facts["held"]) == (6, True)
    assert corrupted(SAVED, "held").facts["held"] is False
    assert SAVED.facts["seed"] == 5
