"""What each key of the client does while one walks. Main thread."""

from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from client.keys import Action
from client.pauses import Reason
from client.revisit import View
from client.revisit_sheet import Origin, write_sheet
from client.split import Split
from client.tree import Row

if TYPE_CHECKING:
    from client.stage import Stage

_MEMORY_OFF = "Memory off: from the next chunk on the model sees its last frames alone. M switches it on."
_NOTHING_YET = "No comparison yet: bookmark a view with B, walk away and come back to it."
_MEMORY_ON = "Memory on: what was seen before is recalled again."


class Deeds:
    """The player's keys as acts on a stage."""

    def __init__(self, stage: "Stage", folder: Path) -> None:
        self._stage = stage
        self._folder = folder
        self._export: Future[Path] | None = None

    def do(self, action: Action, now_s: float) -> None:
        """Do what a key asks for. What needs a connection is passed over without one."""
        stage = self._stage
        if action is Action.HELP:
            stage.helps = not stage.helps
        elif action is Action.HUD:
            stage.hud.mode = stage.hud.mode.following
        elif action is Action.FULL_SCREEN:
            stage.window.toggle_full_screen()
        elif action is Action.METER_VIEW:
            self._turn_meter(now_s)
        elif action is Action.EXPORT:
            self._begin_export(now_s)
        elif action is Action.BOOKMARK:
            self._bookmark(now_s)
        elif stage.walk.welcome is not None:
            self._ask(action, now_s)

    def _ask(self, action: Action, now_s: float) -> None:
        """What the server has to do."""
        stage, travel = self._stage, self._stage.walk.travel
        if action is Action.PAUSE:
            stage.walk.pauses.turn(Reason.PLAYER)
        elif action is Action.RECALL:
            stage.walk.tell(_MEMORY_ON if travel.switch_recall() else _MEMORY_OFF, now_s)
        elif action is Action.SAVE:
            travel.save()
        elif action is Action.LOAD:
            travel.load()
        elif action is Action.FORK:
            travel.fork()
        elif action is Action.TREE:
            stage.tree.toggle()
        elif action is Action.COMPARE:
            self._compare(now_s)

    def go_to(self, row: Row) -> None:
        """A row of the tree was chosen: go back to its snapshot, or over to its branch."""
        self._stage.tree.is_open = False
        self._stage.walk.travel.restore(row.target)

    def collect(self, now_s: float) -> None:
        """Say where an export went, once it is written."""
        if self._export is None or not self._export.done():
            return
        export, self._export = self._export, None
        if (error := export.exception()) is not None:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            text = f"The comparison could not be written to {self._folder}: {reason}."
        else:
            text = f"Written: {export.result()} and its JSON."
        self._stage.walk.tell(text, now_s)

    def _bookmark(self, now_s: float) -> None:
        stage = self._stage
        if stage.shown is None:
            return
        one = stage.meter.drop(View(stage.shown, now_s, stage.walk.travel.recalls))
        stage.walk.tell(f"Bookmark {one.name}. Walk away and come back: then and now are compared.", now_s)

    def _turn_meter(self, now_s: float) -> None:
        stage = self._stage
        if stage.meter.pair is None:
            stage.walk.tell(_NOTHING_YET, now_s)
        else:
            stage.revisit.view = stage.revisit.view.following

    def _begin_export(self, now_s: float) -> None:
        stage, welcome = self._stage, self._stage.walk.welcome
        if stage.meter.pair is None or welcome is None:
            stage.walk.tell(_NOTHING_YET, now_s)
        elif self._export is None:
            origin = Origin(welcome.world, welcome.seed, welcome.model)
            self._export = stage.meter.submit(lambda pair=stage.meter.pair: write_sheet(pair, origin, self._folder))

    def _compare(self, now_s: float) -> None:
        stage = self._stage
        if stage.split is not None:
            stage.split.end("The comparison is over; its other half is kept as a branch.")
        elif stage.visit.mode == "exact":
            stage.walk.tell("Comparing belongs to live mode: start the client without --mode exact.", now_s)
        else:
            stage.split = Split(stage.walk, stage.visit, now_s)
