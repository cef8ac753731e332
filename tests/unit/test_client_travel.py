"""The player's ways through the timeline: rewinding while held, recall off and on, the tree as rows."""

import pytest

from client.link import Link
from client.mailbox import Steering
from client.pauses import Pauses, Reason
from client.status import Notice
from client.stepping import Following
from client.travel import REWIND_S, Travel
from client.tree import Row, rows_of, step, text_of
from client.wire import Visit
from shared.protocol import AskTree, HeadNote, Message, Pause, Rewind, SwitchRecall, Tree
from tests.unit.test_client_window import walk_with_memory


class Asked(Link):
    """A link that is never started and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(Visit("ws://127.0.0.1:9/ws"))
        self.asked: list[Message] = []

    def ask(self, message: Message) -> None:
        self.asked.append(message)


@pytest.fixture
def link() -> Asked:
    return Asked()


def head(chunk: int, why: str = "rewind") -> HeadNote:
    return HeadNote(branch="main", moment=chunk, chunk=chunk, why=why)


def test_holding_backspace_pauses_goes_back_step_by_step_and_walks_on_when_let_go(link: Asked) -> None:
    travel = Travel(link, Pauses(link))
    travel.hold_rewind(is_held=True, now_s=1.0)
    travel.hold_rewind(is_held=True, now_s=1.0 + 3 * REWIND_S)  # no answer yet: not asked again
    assert link.asked == [Pause(on=True), Rewind(chunks=1)]
    travel.learn(head(9))
    travel.hold_rewind(is_held=True, now_s=1.0 + 4 * REWIND_S)
    assert link.asked[2:] == [Rewind(chunks=1)]
    travel.hold_rewind(is_held=False, now_s=2.0)
    assert link.asked[3:] == [Pause(on=False)]
    assert not travel.is_rewinding


def test_a_world_that_the_player_had_paused_stays_paused(link: Asked) -> None:
    pauses = Pauses(link)
    travel = Travel(link, pauses)
    pauses.turn(Reason.PLAYER)
    travel.hold_rewind(is_held=True, now_s=1.0)
    travel.hold_rewind(is_held=False, now_s=2.0)
    assert [wish for wish in link.asked if isinstance(wish, Pause)] == [Pause(on=True)]


def test_the_world_runs_again_when_the_last_reason_is_gone_whoever_was_first(link: Asked) -> None:
    pauses = Pauses(link)
    pauses.give(Reason.SPLIT)
    pauses.give(Reason.SPLIT)
    pauses.turn(Reason.PLAYER)
    pauses.take_back(Reason.SPLIT)
    assert link.asked == [Pause(on=True)]
    assert Reason.PLAYER in pauses
    pauses.take_back(Reason.REWIND)  # it never held
    pauses.turn(Reason.PLAYER)
    assert link.asked == [Pause(on=True), Pause(on=False)]


def test_a_world_that_should_stand_still_is_stopped_again_after_a_new_connection(link: Asked) -> None:
    pauses = Pauses(link)
    pauses.connected()
    assert link.asked == []
    pauses.turn(Reason.PLAYER)
    pauses.connected()
    assert link.asked == [Pause(on=True), Pause(on=True)]


def test_rewinding_grows_faster_and_ends_where_the_server_goes_no_further(link: Asked) -> None:
    travel = Travel(link, Pauses(link))
    chunk, now_s = 200, 0.0
    for _ in range(30):
        now_s += 2 * REWIND_S
        travel.hold_rewind(is_held=True, now_s=now_s)
        chunk -= link.asked[-1].chunks
        travel.learn(head(chunk))
    steps = [wish.chunks for wish in link.asked if isinstance(wish, Rewind)]
    assert (steps[0], steps[-1]) == (1, 4)
    travel.learn(head(chunk))
    count = len(link.asked)
    travel.hold_rewind(is_held=True, now_s=now_s + 5.0)
    assert len(link.asked) == count


def test_a_refused_step_ends_rewinding_until_the_key_is_pressed_again(link: Asked) -> None:
    travel = Travel(link, Pauses(link))
    travel.hold_rewind(is_held=True, now_s=1.0)
    travel.learn(Notice("nothing earlier is kept", "snapshot"))
    travel.hold_rewind(is_held=True, now_s=9.0)
    assert len(link.asked) == 2


def test_m_switches_by_what_was_asked_last_and_believes_the_server(link: Asked) -> None:
    travel = Travel(link, Pauses(link))
    assert travel.switch_recall() is False
    assert travel.switch_recall() is True  # pressed twice before the next chunk
    assert link.asked == [SwitchRecall(on=False), SwitchRecall(on=True)]
    stats = walk_with_memory().atlas.stats
    assert stats is not None
    travel.learn(stats.model_copy(update={"recalls": False}))
    assert not travel.recalls
    travel.learn(stats)
    assert travel.recalls


def test_an_open_tree_is_asked_for_now_and_then_and_at_once_after_a_jump(link: Asked) -> None:
    travel = Travel(link, Pauses(link))
    for now_s in (1.0, 1.1, 1.2):
        travel.look(now_s)
    assert link.asked == [AskTree()]
    travel.learn(head(3, "restore"))
    travel.look(1.3)
    assert link.asked == [AskTree(), AskTree()]


def test_following_counts_what_is_not_drawn_yet_also_when_several_end_at_once() -> None:
    following = Following()
    following.welcome(Steering(), 2)
    for _ in range(3):
        following.give([(1, 0.0, 0.0)] * 2)
    steps = [following.next(Steering()) for _ in range(4)]
    assert [one.seq if one else None for one in steps] == [0, 1, 2, None]
    assert following.open_chunks == 3
    following.done(2)  # the server reports the newest only
    assert following.open_chunks == 0


# 0 - 1 - 2(fork) - 5 - 7 here (main); 2 - 4(* a) - 6 end; 1 - 3 (left)
TREE = Tree(
    nodes=[
        (0, -1, 0, ""),
        (1, 0, 1, ""),
        (2, 1, 2, ""),
        (3, 1, 2, "left"),
        (4, 2, 3, "*a"),
        (6, 4, 5, ""),
        (7, 2, 4, "main, *b"),
    ],
    here=7,
    branch="main",
)


def rows() -> dict[int, Row]:
    return {row.moment: row for row in rows_of(TREE)}


def test_the_way_to_where_one_stands_is_the_first_lane_and_forks_get_their_own() -> None:
    lanes = {moment: row.lane for moment, row in rows().items()}
    assert {lanes[moment] for moment in (0, 1, 2, 7)} == {0}
    assert lanes[4] == lanes[6] != 0
    assert lanes[3] not in (0, lanes[4])


def test_rows_are_newest_first_and_know_their_parents() -> None:
    ordered = rows_of(TREE)
    assert [row.moment for row in ordered] == [7, 6, 4, 3, 2, 1, 0]
    assert ordered[ordered[0].parent_row].moment == 2
    assert ordered[-1].parent_row == -1


def test_rows_say_what_they_are() -> None:
    told = {moment: text_of(row) for moment, row in rows().items()}
    assert told[7] == "★ b · branch main · you are here"
    assert told[4] == "★ a"
    assert told[6] == "walked and left"
    assert told[2] == "ways part here"
    assert told[0] == "the beginning"


def test_only_what_can_be_gone_to_is_chosen() -> None:
    ordered = rows_of(TREE)
    assert [row.target for row in ordered if row.target] == ["b", "a", "left"]
    chosen = step(ordered, None, 1)
    assert chosen == 7
    assert step(ordered, chosen, 1) == 4
    assert step(ordered, 4, 1) == 3
    assert step(ordered, 3, 1) == 3
    assert step(ordered, 3, -1) == 4
    assert step([], None, 1) is None
