"""Split mode on a machine that is slow, or that skips: which pictures make pairs, who waits, and what is said."""

import pytest

from client.mailbox import News
from client.pairs import MAX_WAITING, Pairs
from client.pauses import Reason
from client.picture import Picture
from client.split import Split
from client.status import Phase, Status
from client.walk import Walk
from client.wire import Visit
from shared.pose import Pose
from shared.protocol import Pause, Paused, SnapshotNote, SnapshotRequest, Stats, Welcome
from tests.unit.test_client_travel import Asked
from tests.unit.test_client_window import walk_with_memory

FRAMES = 2  # of a chunk


def picture(chunk: int, index: int = 0, size: tuple[int, int] = (2, 1)) -> Picture:
    frame = chunk * FRAMES + index
    return Picture(frame, frame / 10.0, chunk, index, Pose(), -1, 0.0, False, *size, bytes(size[0] * size[1] * 3))


def places(pictures: list[Picture]) -> list[tuple[int, int]]:
    return [(one.chunk, one.index) for one in pictures]


def test_a_pair_is_made_by_whichever_side_comes_last() -> None:
    pairs = Pairs()
    pairs.add_second(picture(3))
    assert pairs.take_ready() == []
    pairs.add_first(picture(3))
    assert places(pairs.take_ready()) == [(3, 0)]
    assert pairs.take_ready() == []
    pairs.add_first(picture(4))
    pairs.add_second(picture(4))
    assert places(pairs.take_ready()) == [(4, 0)]


def test_what_one_side_skips_is_passed_over_on_the_other() -> None:
    """A live server that is late sends the last picture of a chunk only; the other side has them all."""
    pairs = Pairs()
    for chunk in range(5):
        for index in range(FRAMES):
            pairs.add_second(picture(chunk, index))
        pairs.add_first(picture(chunk, FRAMES - 1))
    assert places(pairs.take_ready()) == [(chunk, FRAMES - 1) for chunk in range(5)]


def test_pictures_of_another_size_are_no_pair_and_shown_ones_are_let_go() -> None:
    pairs = Pairs()
    pairs.add_first(picture(1, size=(4, 2)))
    pairs.add_second(picture(1))
    assert pairs.take_ready() == []
    for chunk in range(2, 2 + 2 * MAX_WAITING):
        pairs.add_first(picture(chunk))
    last = picture(1 + 2 * MAX_WAITING)
    pairs.add_second(picture(2))  # its partner is gone by now
    pairs.add_second(last)
    assert pairs.take_ready() == [last]
    assert pairs.partner(last) is not None
    assert pairs.partner(last) is None


class Other(Asked):
    """The second session's link; what arrives from it is put in by hand."""

    def start(self) -> None:
        """Nothing is connected."""

    def close(self, timeout_s: float = 3.0) -> None:
        """Nothing was connected."""


class Story:
    """A walk and its split, without a socket. `server` says what a server said; `now_s` runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.link, self.other, self.now_s = Asked(), Other(), 100.0
        self.walk = Walk(self.link, "ws://127.0.0.1:9/ws")
        monkeypatch.setattr("client.split.Link", lambda visit, following: self._enter(following))
        self.split = self.begin()

    def begin(self) -> Split:
        return Split(self.walk, Visit("ws://127.0.0.1:9/ws", world="home"), self.now_s)

    def _enter(self, following: object) -> Other:
        self.following = following
        return self.other

    def server(self, *news: News, other: bool = False) -> None:
        for one in news:
            (self.other if other else self.link).arrivals.put_news(one)
        self.walk.update(self.now_s)
        self.split.update(self.now_s)

    def stand(self) -> None:
        """Both sessions stand, after chunk 7."""
        name = next(one.name for one in self.link.asked if isinstance(one, SnapshotRequest))
        self.server(SnapshotNote(name=name, moment=7, chunk=7, durable=False, text="kept"))
        self.server(welcome(), other=True)

    def pauses(self) -> list[bool]:
        return [one.on for one in self.link.asked if isinstance(one, Pause)]

    def draw(self, *chunks: int) -> None:
        """The player's own session drew these chunks."""
        self.server(*[stats(chunk) for chunk in chunks])


def stats(chunk: int) -> Stats:
    known = walk_with_memory().atlas.stats
    assert known is not None
    return known.model_copy(update={"chunk": chunk, "controls": [(1, 0.0, 0.0)] * FRAMES})


def welcome() -> Welcome:
    return Welcome(
        version=1, session="s", world="home", seed=1, model="plain", mode="exact", role="driver", codec="png", fps=10.0,
        width=2, height=1, frames_per_chunk=FRAMES, max_recall=4, walk_m_s=1.0, turn_rad_s=1.0, max_pitch_rad=0.5,
        credit=2, resume="r",
    )  # fmt: skip


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(monkeypatch)


def test_a_comparison_begun_right_after_another_runs_though_the_server_still_says_paused(story: Story) -> None:
    """The server's word comes late on a busy machine: it must not be taken for the player's own pause."""
    story.stand()
    story.split.end("C")
    story.server(Paused(why="player"))  # of the pause with which the first one began
    assert story.walk.paused_why == "player"
    story.link.asked.clear()
    story.split = story.begin()
    story.stand()
    assert story.split.is_running
    assert story.pauses() == [True, False]


def test_two_comparisons_within_a_second_keep_two_snapshots(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client.split.time.time_ns", lambda: 1_234_000_000)
    first = story.begin()
    monkeypatch.setattr("client.split.time.time_ns", lambda: 1_254_000_000)
    second = story.begin()
    assert first is not second
    names = [one.name for one in story.link.asked if isinstance(one, SnapshotRequest)]
    assert len(set(names[-2:])) == 2


def test_a_player_who_paused_before_stays_paused_and_p_goes_on(story: Story) -> None:
    story.walk.pauses.turn(Reason.PLAYER)
    story.stand()
    assert story.pauses() == [True]
    story.walk.pauses.turn(Reason.PLAYER)
    assert story.pauses() == [True, False]


def test_the_walk_waits_while_the_other_is_far_behind_and_goes_on_when_it_caught_up(story: Story) -> None:
    story.stand()
    story.draw(*range(8, 16))
    assert story.pauses() == [True, False, True]
    story.now_s += 10.0
    assert "8 chunks behind" in story.split.words(story.now_s)
    for _ in range(8):
        story.following.next(None)
    story.following.done(5)
    story.draw()
    assert story.pauses() == [True, False, True, False]


def test_p_while_the_walk_waits_for_the_other_is_the_players_own_pause(story: Story) -> None:
    story.stand()
    story.draw(*range(8, 16))
    story.walk.pauses.turn(Reason.PLAYER)
    for _ in range(8):
        story.following.next(None)
    story.following.done(7)
    story.draw()
    assert story.pauses() == [True, False, True]
    story.walk.pauses.turn(Reason.PLAYER)
    assert story.pauses()[-1] is False


def test_pairs_are_made_of_what_arrived_though_nothing_of_it_was_shown(story: Story) -> None:
    story.stand()
    for chunk in range(8, 12):
        story.draw(chunk)
        for index in range(FRAMES):
            story.other.arrivals.put_frame(picture(chunk, index), story.now_s)
        story.link.arrivals.put_frame(picture(chunk, 1), story.now_s)
        story.server()
    story.now_s += 1.0
    story.server()
    assert story.split.both is not None
    assert story.split.both.with_recall.index == 1
    assert len(story.split.curve) >= 1


def test_a_chunk_whose_controls_were_lost_ends_the_comparison_in_words(story: Story) -> None:
    story.stand()
    story.draw(8, 10)
    assert "too slow" in story.split.ended
    assert story.pauses()[-1] is False


def test_chunks_from_before_the_snapshot_are_not_drawn_again(story: Story) -> None:
    story.stand()
    story.draw(6, 7, 8)
    assert story.split.ended == ""
    assert story.following.open_chunks == 1


def test_a_second_walk_that_never_begins_lets_the_first_go_on(story: Story) -> None:
    assert "Beginning" in story.split.words(story.now_s)
    story.now_s += 100.0
    story.server()
    assert "C tries again" in story.split.ended
    assert story.pauses() == [True, False]


def test_a_second_session_that_is_refused_is_said(story: Story) -> None:
    story.stand()
    story.server(Status(Phase.LOST, text="", code="busy"), other=True)
    assert story.split.ended.startswith("The server is busy.")
    assert story.pauses() == [True, False]
