"""A session jumping about in its timeline, against a plain dict of the tree: who descends from whom, who saw what."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from bench.drive import start
from models.plain import PlainModel
from server.faults import SnapshotFault
from server.session import Session
from shared.controls import Controls, Key
from tests.e2e.whole_server import small_budgets

FRAMES = 2  # of a chunk
STEPS = {
    "ahead": [Controls(Key.FORWARD)] * FRAMES,
    "left": [Controls(mouse_dx=-60.0)] * FRAMES,
    "right": [Controls(mouse_dx=60.0)] * FRAMES,
    "still": [Controls()] * FRAMES,
}


class TimelineMachine(RuleBasedStateMachine):
    snapshots = Bundle("snapshots")
    heads = Bundle("heads")
    branches = Bundle("branches")

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        model = PlainModel()
        self.drive = start(model, small_budgets(model), Path(self.folder.name), seed=3)
        self.parents = {0: -1}
        self.blocks = {0}  # moments that left one
        self.drawn = {}  # (moment, step) -> hashes of the frames that followed
        self.at = self.num_names = 0
        self.drive.session._shelf.budget_bytes = 6 * 3 * model.kv_spec.kv_bytes

    @property
    def session(self) -> Session:
        return self.drive.session

    def ancestors(self, moment):
        while moment >= 0:
            yield moment
            moment = self.parents[moment]

    @rule(name=st.sampled_from(sorted(STEPS)))
    def step(self, name):
        self.drive.walk(STEPS[name])
        self.drive.frames.clear()
        moment = self.session.timeline.tree.moment(self.session.head.moment)
        assert moment.id not in self.parents
        assert moment.parent == self.at
        assert set(moment.recalled) <= self.blocks.intersection(self.ancestors(self.at))
        assert self.drawn.setdefault((self.at, name), moment.frame_hashes) == moment.frame_hashes
        self.parents[moment.id], self.at = self.at, moment.id
        if moment.has_block:
            self.blocks.add(moment.id)

    @rule(target=heads)
    def hold(self):
        return self.session.head

    @rule(target=snapshots)
    def snapshot(self):
        self.num_names += 1
        return self.session.snapshot(f"s{self.num_names}")

    @rule(target=branches)
    def fork(self):
        return self.session.fork()

    @rule(head=heads)
    def go_to(self, head):
        self.session.restore(head)
        self.at = head.moment

    @rule(snapshot=snapshots, write=st.booleans())
    def restore(self, snapshot, write):
        if write:
            assert snapshot.durable.result(30.0)
            self.session.settle()
        self.session.restore(snapshot)
        self.at = snapshot.moment

    @rule(snapshot=consumes(snapshots))
    def drop(self, snapshot):
        self.session.timeline.drop(snapshot)

    @rule(branch=branches)
    def switch(self, branch):
        if branch is not self.session.branch:
            self.session.switch(branch)
        self.at = branch.moment

    @precondition(lambda self: self.at > 0)
    @rule(chunks=st.integers(1, 40))
    def rewind(self, chunks):
        line = list(self.ancestors(self.at))
        goal = line[min(chunks, len(line) - 1)]
        is_root_kept = self.session.timeline.root.head is not None
        try:
            self.session.rewind(chunks)
        except SnapshotFault:
            assert not is_root_kept
        else:
            self.at = self.session.head.moment
            assert self.at == goal if is_root_kept else self.at in line[: line.index(goal) + 1]

    @rule()
    def settle(self):
        self.session.settle()
        self.drive._keep_frames()
        self.drive.frames.clear()

    @invariant()
    def head_and_line_are_those_of_the_model(self):
        assert self.session.head.moment == self.at
        line = self.session.head.line.ids().tolist()
        assert line == sorted(self.blocks.intersection(self.ancestors(self.at)))
        view = self.session._catalog.view(0)
        assert view.ids.tolist() == line
        assert len(view.alive) == len(line)

    def teardown(self):
        self.drive.close()
        self.folder.cleanup()


TestTimeline = TimelineMachine.TestCase
TestTimeline.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)
