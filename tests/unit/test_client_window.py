"""Hands, HUD and cards on SDL's dummy driver: what a player's events do, and what is drawn where."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

os.environ["SDL_VIDEODRIVER"] = "dummy"
os.environ["SDL_AUDIODRIVER"] = "dummy"

import pygame
import pytest
from PIL import Image

from client import overlay
from client.atlas import Atlas
from client.deeds import Deeds
from client.flights import Flights
from client.hud import Hud, HudMode
from client.keys import Action, Hands
from client.likeness import compare
from client.link import Link
from client.panels import memory, strip_rect
from client.picture import Picture
from client.readings import marks
from client.rehearsal import HEIGHT_PX, WIDTH_PX, paint_numbers
from client.revisit import Guide, Meter, Pair, View
from client.revisit_view import MeterView, RevisitView
from client.screen import Screen, letterbox
from client.start import Start
from client.start_view import StartView, start_scale
from client.status import Card
from client.theme import ACCENT, BACKDROP, Colour, Type, scale_for
from client.tree_view import TreeView
from client.walk import Walk
from client.window import display_fault, first_size
from client.wire import Visit
from client.worlds import SnapshotEntry, WorldEntry
from shared.controls import Key
from shared.pose import Pose
from shared.protocol import BlockNote, HeadNote, Stats, TierState, Tree, Welcome
from shared.tiers import Tier

if TYPE_CHECKING:
    from client.stage import Stage

SIZE = (1152, 768)


@pytest.fixture
def window() -> Iterator[pygame.Surface]:
    """A window that nobody sees."""
    pygame.display.init()
    pygame.font.init()
    yield pygame.display.set_mode(SIZE)
    pygame.quit()


def press(hands: Hands, scancode: int, *, is_down: bool = True, key: int = 0, mod: int = 0) -> Action | None:
    """A key goes down or up."""
    kind = pygame.KEYDOWN if is_down else pygame.KEYUP
    return hands.take(pygame.event.Event(kind, scancode=scancode, key=key, mod=mod, unicode=""), 0.0)


def walk_with_memory() -> Walk:
    """A walk that was welcomed and knows of three blocks, one a tier, and a recall; its link is never started."""
    walk = Walk(Link(Visit("ws://127.0.0.1:9/ws")), "ws://127.0.0.1:9/ws")
    box = walk.link.arrivals
    box.put_news(
        Welcome(
            version=1, session="s", world="w", seed=1, model="m", mode="live", role="driver", codec="jpeg", fps=10.0,
            width=WIDTH_PX, height=HEIGHT_PX, frames_per_chunk=2, max_recall=4, walk_m_s=1.0, turn_rad_s=2.0,
            max_pitch_rad=0.0, credit=2, resume="r",
        )
    )  # fmt: skip
    blocks = [(tier, tier - 1.0, 1.0, 0.0, tier, False) for tier in range(3)]
    box.put_news(BlockNote(blocks=blocks, moves=[(0, 1, 0), (2, -1, 2)]))
    box.put_news(
        Stats(
            chunk=7, tiers=[TierState(blocks=4, used_bytes=50, budget_bytes=100)] * 3, wanted=[9], recalled=[9],
            recalled_tiers=[1], stale=True, hits=[0, 1, 0], chunks=7, stale_chunks=1, lost=0, forgotten=0, missed=0,
            fetched_bytes=0, spilled_bytes=0, disk_read_bytes=0, disk_written_bytes=0, queued_moves=0, stalls=1,
            preempted=0, longest_wait_ms=1.0, prediction_error_m=0.0, prediction_error_rad=0.0,
            foreseen=(0.5, 0.0, 0.5, 0.2, 0.0), stages_ms={}, notes=[],
        )
    )  # fmt: skip
    walk.update(0.0)
    walk.atlas.stand(Pose())
    return walk


def test_keys_are_places_on_the_keyboard_and_release_when_let_go(window: pygame.Surface) -> None:
    hands = Hands()
    press(hands, pygame.KSCAN_W)
    press(hands, pygame.KSCAN_D)
    assert hands.keys == Key.FORWARD | Key.RIGHT
    press(hands, pygame.KSCAN_W, is_down=False)
    assert hands.keys == Key.RIGHT


def test_losing_the_focus_releases_the_keys_at_once_and_the_mouse_after_a_moment(window: pygame.Surface) -> None:
    hands = Hands()
    press(hands, pygame.KSCAN_W)
    hands.take(pygame.event.Event(pygame.MOUSEBUTTONDOWN, button=1, pos=(5, 5)), 0.0)
    hands.take(pygame.event.Event(pygame.WINDOWFOCUSLOST), 1.0)
    assert hands.keys == Key(0)
    hands.travel(1.05, 0.016)
    assert hands.is_captured
    hands.travel(1.2, 0.016)
    assert not hands.is_captured


def test_a_short_loss_of_focus_does_not_let_the_mouse_go(window: pygame.Surface) -> None:
    hands = Hands()
    hands.capture(on=True)
    hands.take(pygame.event.Event(pygame.WINDOWFOCUSLOST), 1.0)
    hands.take(pygame.event.Event(pygame.WINDOWFOCUSGAINED), 1.05)
    hands.travel(2.0, 0.016)
    assert hands.is_captured


def test_mouse_travel_adds_up_only_while_captured(window: pygame.Surface) -> None:
    hands = Hands()
    motion = pygame.event.Event(pygame.MOUSEMOTION, rel=(7, -2), pos=(0, 0), buttons=(0, 0, 0))
    hands.take(motion, 0.0)
    assert hands.travel(0.0, 0.016) == (0.0, 0.0)
    hands.take(pygame.event.Event(pygame.MOUSEBUTTONDOWN, button=1, pos=(5, 5)), 0.0)
    hands.take(motion, 0.0)
    hands.take(motion, 0.0)
    assert hands.travel(0.0, 0.016) == (14.0, -4.0)
    press(hands, pygame.KSCAN_ESCAPE)
    assert not hands.is_captured
    assert pygame.mouse.get_visible()


def test_arrow_keys_turn_without_a_mouse(window: pygame.Surface) -> None:
    hands = Hands()
    press(hands, pygame.KSCAN_LEFT)
    dx, _ = hands.travel(0.0, 0.1)
    assert dx == pytest.approx(-48.0)


@pytest.mark.parametrize(
    ("scancode", "action"),
    [
        (pygame.KSCAN_F1, Action.HELP),
        (pygame.KSCAN_F11, Action.FULL_SCREEN),
        (pygame.KSCAN_H, Action.HUD),
        (pygame.KSCAN_P, Action.PAUSE),
        (pygame.KSCAN_B, Action.BOOKMARK),
        (pygame.KSCAN_V, Action.METER_VIEW),
        (pygame.KSCAN_X, Action.EXPORT),
        (pygame.KSCAN_M, Action.RECALL),
        (pygame.KSCAN_C, Action.COMPARE),
        (pygame.KSCAN_F5, Action.SAVE),
        (pygame.KSCAN_F9, Action.LOAD),
        (pygame.KSCAN_F6, Action.FORK),
        (pygame.KSCAN_T, Action.TREE),
    ],
)
def test_the_clients_own_keys(window: pygame.Surface, scancode: int, action: Action) -> None:
    assert press(Hands(), scancode) is action


def test_letters_are_what_is_printed_and_walking_is_by_place(window: pygame.Surface) -> None:
    hands = Hands()
    assert press(hands, pygame.KSCAN_SEMICOLON, key=pygame.K_m) is Action.RECALL  # French: M is where ; is
    assert press(hands, pygame.KSCAN_M, key=pygame.K_COMMA) is Action.RECALL  # no letter printed: by place
    assert press(hands, pygame.KSCAN_D, key=pygame.K_e) is None  # Dvorak walks with this one
    assert hands.keys == Key.RIGHT


def test_control_and_q_quits_and_other_shortcuts_are_no_steps(window: pygame.Surface) -> None:
    hands = Hands()
    assert press(hands, pygame.KSCAN_Q, key=pygame.K_q, mod=pygame.KMOD_LCTRL) is Action.QUIT
    assert press(hands, pygame.KSCAN_A, key=pygame.K_q, mod=pygame.KMOD_LCTRL) is Action.QUIT  # French
    assert press(hands, pygame.KSCAN_W, key=pygame.K_w, mod=pygame.KMOD_LCTRL) is None
    assert hands.keys == Key(0)
    assert hands.take(pygame.event.Event(pygame.QUIT), 0.0) is Action.QUIT


def test_backspace_rewinds_while_it_is_held_and_the_window_has_the_keyboard(window: pygame.Surface) -> None:
    hands = Hands()
    assert press(hands, pygame.KSCAN_BACKSPACE) is None
    assert hands.is_rewinding
    press(hands, pygame.KSCAN_BACKSPACE, is_down=False)
    assert not hands.is_rewinding
    press(hands, pygame.KSCAN_BACKSPACE)
    hands.take(pygame.event.Event(pygame.WINDOWFOCUSLOST), 1.0)
    assert not hands.is_rewinding


def test_the_help_names_every_key_and_every_word_of_the_hud() -> None:
    keys = " ".join(key for key, _ in overlay.HELP)
    for name in ("B", "V", "X", "M", "C", "F5", "F9", "Backspace", "F6", "T", "H", "P", "F11", "F1", "Ctrl+Q"):
        assert name in keys.split(), name
    legend = " ".join(overlay._LEGEND)
    for word in ("stalls", "stale recalls", "lost", "missed"):
        assert f"{word}:" in legend


def test_no_display_is_said_with_what_to_do() -> None:
    assert "--headless" in display_fault({}, "linux")
    assert "--headless" in display_fault({"DISPLAY": ""}, "linux")
    for given in ({"DISPLAY": ":0"}, {"WAYLAND_DISPLAY": "wayland-0"}, {"SDL_VIDEODRIVER": "dummy"}):
        assert display_fault(given, "linux") == ""
    assert display_fault({}, "darwin") == ""
    assert display_fault({}, "win32") == ""


def test_the_first_window_fits_the_desktop() -> None:
    assert first_size((1920, 1080)) == (1152, 768)
    assert first_size((1024, 700))[1] <= 0.92 * 700 + 1
    assert first_size((3840, 2160)) == (2304, 1536)


def test_the_full_hud_shows_each_tier_in_its_colour_and_leaves_the_picture_free(window: pygame.Surface) -> None:
    hud = Hud(Type(1.0))
    window.fill((10, 20, 30))
    hud.draw(window, walk_with_memory(), 10.0)
    assert window.get_at((400, 400))[:3] == (10, 20, 30)
    column = [window.get_at((900, y))[:3] for y in range(300, 560)]
    for tier in Tier:
        nearest = min(sum(abs(a - b) for a, b in zip(pixel, ACCENT[tier], strict=True)) for pixel in column)
        assert nearest < 90, tier


def test_half_full_strips_are_half_filled(window: pygame.Surface) -> None:
    hud = Hud(Type(1.0))
    hud.draw(window, walk_with_memory(), 10.0)
    region = hud.moving_region(10.1)
    assert region is not None  # two blocks are under way
    assert window.get_rect().contains(region)
    pygame.image.tobytes(window, "RGB")


def test_h_goes_round_and_off_draws_nothing(window: pygame.Surface) -> None:
    hud = Hud(Type(1.0))
    modes = [hud.mode]
    for _ in range(3):
        modes.append(modes[-1].following)
    assert modes == [HudMode.FULL, HudMode.COMPACT, HudMode.OFF, HudMode.FULL]
    window.fill((1, 2, 3))
    hud.mode = HudMode.OFF
    hud.draw(window, walk_with_memory(), 10.0)
    assert pygame.transform.average_color(window)[:3] == (1, 2, 3)
    hud.mode = HudMode.COMPACT
    hud.draw(window, walk_with_memory(), 10.0)
    assert window.get_at((24, 40))[:3] != (1, 2, 3)


def test_what_is_said_above_lies_below_the_compact_line(window: pygame.Surface) -> None:
    hud = Hud(Type(1.0), HudMode.COMPACT)
    area = hud.free_area(SIZE)
    assert area.bottom == SIZE[1]
    window.fill((1, 2, 3))
    hud.draw(window, walk_with_memory(), 10.0)
    assert pygame.transform.average_color(window.subsurface(area))[:3] == (1, 2, 3)


def test_a_single_block_of_a_large_tier_is_seen(window: pygame.Surface) -> None:
    atlas = walk_with_memory().atlas
    assert atlas.stats is not None
    state = TierState(blocks=1, used_bytes=1, budget_bytes=10**9)
    atlas.stats = atlas.stats.model_copy(update={"tiers": [state] * 3, "recalled": []})
    surface = memory(Type(1.0), 304, atlas)
    for tier in Tier:
        red, green, blue, _ = surface.get_at(
            (strip_rect(Type(1.0), tier, 304).left + 1, strip_rect(Type(1.0), tier, 304).centery)
        )
        assert max(red, green, blue) > 150


class Words(Type):
    """A type that remembers what was written with it."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.written: list[str] = []

    def text(self, words: str, size: float, colour: Colour, *, bold: bool = False) -> pygame.Surface:
        self.written.append(words)
        return super().text(words, size, colour, bold=bold)


@pytest.mark.parametrize("mode", [HudMode.FULL, HudMode.COMPACT])
def test_before_the_first_chunk_the_hud_says_what_it_waits_for_and_no_figure(
    window: pygame.Surface, mode: HudMode
) -> None:
    walk, type_ = walk_with_memory(), Words()
    walk.atlas = Atlas()
    Hud(type_, mode).draw(window, walk, 10.0)
    assert "waiting for the first chunk" in type_.written
    figures = [words for words in type_.written if re.search(r"\d", words) and "seeded" not in words]
    assert figures in ([], ["1 m"])  # the scale of the map


def test_while_rewinding_the_hud_tells_the_chunk_where_one_stands_and_no_recall_of_another(
    window: pygame.Surface,
) -> None:
    walk = walk_with_memory()
    walk.link.arrivals.put_news(HeadNote(branch="main", moment=4, chunk=4, why="rewind"))
    walk.update(1.0)
    type_ = Words()
    memory(type_, 304, walk.atlas)
    assert "chunk 4" in type_.written
    assert "with the next chunk" in type_.written
    assert "#9" not in type_.written
    stats = walk.atlas.stats
    assert stats is not None
    walk.atlas.learn(stats.model_copy(update={"chunk": 5}), 2.0)
    type_ = Words()
    memory(type_, 304, walk.atlas)
    assert {"chunk 5", "#9"} <= set(type_.written)
    assert any("block number" in words for words in type_.written)  # what #9 is


def test_a_stale_recall_says_how_much_of_what_was_wanted_is_there(window: pygame.Surface) -> None:
    walk, type_ = walk_with_memory(), Words()
    stats = walk.atlas.stats
    assert stats is not None
    walk.atlas.learn(stats.model_copy(update={"wanted": [1, 2, 3], "recalled": [3, 8]}), 2.0)
    memory(type_, 304, walk.atlas)
    assert "stale: 1 of 3 wanted" in type_.written


def test_v_without_a_comparison_says_what_to_do_and_changes_nothing() -> None:
    walk, revisit, meter = walk_with_memory(), RevisitView(), Meter()
    stage = SimpleNamespace(walk=walk, revisit=revisit, meter=meter)
    Deeds(cast("Stage", stage), Path()).do(Action.METER_VIEW, 1.0)
    meter.close()
    assert revisit.view is MeterView.BESIDE
    assert "bookmark a view with B" in walk.notice(1.0)


def test_flights_take_off_one_after_the_other_and_land() -> None:
    walk = walk_with_memory()
    flights = Flights()
    flights.feed(walk.atlas.moves, 5.0)
    assert not walk.atlas.moves
    assert len(flights.under_way(5.0)) == 1
    assert len(flights.under_way(5.5)) == 2
    flights.feed(walk.atlas.moves, 9.0)
    assert flights.under_way(9.0) == []


@pytest.mark.parametrize("size", [(1280, 720), (3840, 2160), (700, 500)])
def test_everything_fits_and_draws_at_every_size(size: tuple[int, int]) -> None:
    pygame.display.init()
    pygame.font.init()
    target = pygame.display.set_mode(size)
    type_ = Type(scale_for(*size))
    hud = Hud(type_)
    hud.draw(target, walk_with_memory(), 10.0)
    overlay.draw_help(target, type_)
    overlay.draw_card(target, type_, Card("Getting ready", ("words " * 40,), 0.5, is_busy=True), 1.0)
    overlay.draw_hint(target, type_, overlay.CAPTURE_HINT, hud.free_area(size), at_top=False)
    overlay.draw_hint(target, type_, "words " * 40, hud.free_area(size), at_top=True)
    region = hud.moving_region(10.1)
    assert region is not None
    assert target.get_rect().contains(region)
    assert hud.free_area(size).right <= region.left + 2 * type_.px(26)  # they may fly a little beyond their panel
    pygame.quit()


def picture_of(rgb: bytes, chunk: int = 0, pose: Pose | None = None) -> Picture:
    return Picture(chunk, 0.0, chunk, 0, pose or Pose(), -1, 0.0, False, WIDTH_PX, HEIGHT_PX, rgb)


@pytest.mark.parametrize("size", [(1152, 768), (2304, 1536), (700, 500)])
@pytest.mark.parametrize("view", list(MeterView))
def test_the_meter_draws_inside_every_window(size: tuple[int, int], view: MeterView) -> None:
    pygame.display.init()
    pygame.font.init()
    target = pygame.display.set_mode(size)
    type_ = Type(scale_for(*size))
    rgb = paint_numbers(Pose(), 5, 9).tobytes()
    meter = Meter()
    then, now = View(picture_of(rgb), 0.0, True), View(picture_of(rgb, 40), 9.0, False)
    meter.pair = Pair(meter.drop(then), now, compare(then.rgb, now.rgb), (0.3, 0.2))
    drawn = RevisitView()
    drawn.view = view
    target.fill((1, 2, 3))
    drawn.draw(target, type_, meter, None, 10.0)
    is_drawn = pygame.transform.average_color(target)[:3] != (1, 2, 3)
    assert is_drawn == (view is not MeterView.HIDDEN) == drawn.shows(meter, 10.0)
    assert not drawn.shows(meter, 60.0)  # its player has left long ago
    for edge in (target.subsurface((0, 0, size[0], 4)), target.subsurface((size[0] - 4, 0, 4, size[1]))):
        assert pygame.transform.average_color(edge)[:3] == (1, 2, 3)
    drawn.draw(target, type_, meter, Guide(meter.bookmarks[0], 2.3, 0.5, -1.0), 60.0)
    meter.close()
    pygame.quit()


@pytest.mark.parametrize("size", [(1152, 768), (700, 500)])
def test_the_tree_is_walked_with_arrows_and_scrolls(size: tuple[int, int]) -> None:
    pygame.display.init()
    pygame.font.init()
    target = pygame.display.set_mode(size)
    nodes = [(moment, moment - 1, moment, f"*s{moment}" if moment % 2 else "") for moment in range(60)]
    tree = TreeView()
    tree.toggle()
    tree.draw(target, Type(scale_for(*size)), None)
    tree.draw(target, Type(scale_for(*size)), Tree(nodes=nodes, here=20, branch="main"))
    assert TreeView.takes(pygame.KSCAN_DOWN)
    assert not TreeView.takes(pygame.KSCAN_W)
    assert tree.press(pygame.KSCAN_RETURN) is None  # nothing is chosen yet
    for _ in range(4):
        assert tree.press(pygame.KSCAN_DOWN) is None
    tree.draw(target, Type(scale_for(*size)), Tree(nodes=nodes, here=20, branch="main"))
    row = tree.press(pygame.KSCAN_RETURN)
    assert row is not None
    assert row.snapshots == ("s53",)
    pygame.quit()


@pytest.mark.parametrize("size", [(1152, 768), (2304, 1536), (700, 500)])
def test_the_start_screen_is_chosen_from_with_the_mouse(size: tuple[int, int]) -> None:
    pygame.display.init()
    pygame.font.init()
    target = pygame.display.set_mode(size)
    snapshots = [SnapshotEntry(name=f"s{number}", n=number, created_s=number) for number in range(9)]
    worlds = [WorldEntry(id="a" * 26, name="home " * 12, snapshots=snapshots), WorldEntry(id="b" * 26, name="b")]
    start, view = Start(worlds), StartView(Type(start_scale(*size)), "ws://box/ws")
    pictures = {("world", "a" * 26): Image.new("RGB", (96, 64)), ("snapshot", "a" * 26, 8): Image.new("RGB", (20, 90))}
    places = view.draw(target, start, pictures)
    assert places.worlds[0][0].collidelist([place for place, _ in places.worlds[1:]]) == -1
    place, index = places.snapshots[-1]
    assert target.get_rect().contains(place)
    assert places.point(start, place.center)
    assert start.entrance.at == f"s{8 - index}"
    assert not places.point(start, (size[0] - 1, size[1] - 1))
    assert places.point(start, places.worlds[1][0].center)
    assert (start.world_at, start.snapshot_at) == (1, None)
    start.choose(2)
    assert [index for _, index in view.draw(target, start, pictures).worlds][-1] == 2
    pygame.quit()


def test_a_jump_leaves_nothing_of_the_old_place_and_cuts_the_trail() -> None:
    walk = walk_with_memory()
    for chunk in range(4):
        walk.presented(picture_of(b"", chunk, Pose(z_m=float(chunk))), 1.0)
    walk.link.arrivals.put_frame(picture_of(b"", 4), 1.0)
    walk.link.arrivals.put_news(HeadNote(branch="main", moment=1, chunk=1, why="restore", text="Back at a."))
    walk.link.arrivals.put_news(BlockNote(blocks=[(1, 0.0, 0.0, 0.0, 0, False)], moves=[]))
    walk.update(2.0)
    assert walk.due(9.0) is None
    assert list(walk.atlas.places) == [1]
    assert walk.atlas.trail[-1] == (0.0, 1.0)
    assert walk.notice(2.0) == "Back at a."
    walk.link.arrivals.put_frame(replace(picture_of(b"", 1), pts_s=7.0), 2.1)
    walk.update(2.1)
    assert walk.due(2.1) is not None  # at once, without a cushion


def test_a_server_that_was_started_again_counts_its_frames_from_zero_and_they_are_shown() -> None:
    walk = walk_with_memory()
    walk.link.arrivals.put_frame(replace(picture_of(b"", 90), pts_s=9.0), 1.0)
    walk.update(1.0)
    assert walk.due(2.0) is not None
    assert walk.welcome is not None
    walk.link.arrivals.put_news(walk.welcome.model_copy(update={"resumed": True}))
    walk.link.arrivals.put_frame(replace(picture_of(b"", 89), pts_s=0.0), 5.0)
    walk.update(5.0)
    assert walk.due(6.0) is not None
    assert not walk.atlas.places  # they are told anew
    assert walk.atlas.trail


def test_the_hud_says_that_recall_is_off() -> None:
    stats = walk_with_memory().atlas.stats
    assert stats is not None
    told = marks(None, stats.model_copy(update={"recalls": False}))
    assert [(mark.label, mark.is_bad) for mark in told] == [("recall", True)]
    assert marks(None, stats) == []


def test_a_picture_is_letterboxed_and_its_cells_stay_where_they_are(window: pygame.Surface) -> None:
    assert letterbox((96, 64), (1920, 1080)) == pygame.Rect(150, 0, 1620, 1080)
    rgb = paint_numbers(Pose(), 1, 0).tobytes()  # bit 0 says input 0, bit 48 says frame 1
    screen = Screen()
    screen.draw(window)
    assert window.get_at((5, 5))[:3] == BACKDROP
    screen.show(
        Picture(frame_id=1, pts_s=0.0, chunk=0, index=0, pose=Pose(), input_seq=0, held_ms=0.0, seeded=False,
                width_px=WIDTH_PX, height_px=HEIGHT_PX, rgb=rgb)
    )  # fmt: skip
    screen.draw(window)
    assert window.get_at((48, 48))[:3] == (255, 255, 255)
    assert window.get_at((144, 48))[:3] == (0, 0, 0)
    assert window.get_at((48, 4 * 96 + 48))[:3] == (255, 255, 255)
