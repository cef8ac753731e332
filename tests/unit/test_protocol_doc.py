"""docs/protocol.md is complete and its bytes are real."""

import re
from pathlib import Path
from typing import get_args

import pytest

from server.access import HELLO_PATH
from server.connection import DEAD_MAN_S, HELLO_TIMEOUT_S
from server.limits import BURST_MESSAGES, BURST_TRAVELS, CLOSE_CODES, CLOSE_OTHER, MESSAGES_PER_S, TRAVELS_PER_S
from shared import protocol
from shared.protocol import Message, News, TierState, pack, unpack_client, unpack_server
from shared.timeline import MAX_REWIND_CHUNKS, MAX_TREE_NODES

TEXT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
CLIENT = get_args(protocol.FromClient)
SERVER = get_args(protocol.FromServer)
HEX = re.findall(r"```hex (client|server)\n(.*?)```", TEXT, re.DOTALL)


def section(message: type[Message]) -> str:
    name = message.model_fields["type"].default
    asked_too = issubclass(message, News) and name in {one.model_fields["type"].default for one in CLIENT}
    title = rf"{name} \(from the server\)" if asked_too else name
    found = re.search(rf"^### {title}\n(.*?)(?=^##)", TEXT, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{name} has no section"
    return found[1]


@pytest.mark.parametrize("message", [*CLIENT, *SERVER])
def test_every_field_of_every_message_is_named(message: type[Message]) -> None:
    text = section(message)
    assert [name for name in message.model_fields if f"`{name}`" not in text] == []


def test_the_fields_of_a_tier_are_named() -> None:
    assert [name for name in TierState.model_fields if f"`{name}`" not in section(protocol.Stats)] == []


@pytest.mark.parametrize("message", [*CLIENT, *SERVER])
def test_no_field_is_named_that_is_not_there(message: type[Message]) -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section(message), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named <= set(message.model_fields)


def test_every_error_has_its_close_code() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (\d{4}) \|", TEXT, re.MULTILINE)
    documented = {name: int(code) for names, code in rows for name in re.findall(r"`(\w+)`", names)}
    assert documented == CLOSE_CODES
    assert f"| any other | {CLOSE_OTHER} |" in TEXT


def test_the_examples_are_messages() -> None:
    assert len(HEX) >= 8
    for side, block in HEX:
        data = bytes.fromhex("".join(line.partition("#")[0] for line in block.splitlines()))
        message = unpack_client(data) if side == "client" else unpack_server(data)
        if side == "server":
            assert pack(message) == data


def test_the_examples_tell_a_whole_session() -> None:
    kinds = []
    for side, block in HEX:
        data = bytes.fromhex("".join(line.partition("#")[0] for line in block.splitlines()))
        kinds.append((unpack_client if side == "client" else unpack_server)(data).type)
    assert kinds == ["hello", "hello", "loading", "welcome", "frame", "input", "ping", "pong", "goodbye"]


def test_the_numbers_are_those_of_the_code() -> None:
    stated = (
        f"version {protocol.PROTOCOL_VERSION}",
        f"{protocol.MAX_CLIENT_MESSAGE_BYTES:,} bytes",
        f"{protocol.MAX_SERVER_MESSAGE_BYTES:,} bytes",
        f"| {protocol.MAX_DEPTH} containers",
        f"| {protocol.MAX_ITEMS:,} |",
        f"{HELLO_TIMEOUT_S:g} s",
        f"{DEAD_MAN_S * 1000:g} ms",
        f"{MESSAGES_PER_S:g} a second and one for each frame that was sent, {BURST_MESSAGES:g} at once",
        f"{TRAVELS_PER_S:g} a second, {BURST_TRAVELS:g} at once",
        f"HOST:PORT{HELLO_PATH}",
        f"int, 1 to {MAX_REWIND_CHUNKS}",
        f"at most {MAX_TREE_NODES:,} of them",
    )
    assert [text for text in stated if text not in TEXT] == []
