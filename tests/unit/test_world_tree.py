"""The tree of a world as text: forks are indented, straight lines are summed up."""

from server.moments import NO_MOMENT, Moment
from server.world_log import Branch, Kept, WorldLog
from server.world_tree import MAX_DEPTH, tree_lines


def moment(number, parent, *, seeded=False, stale=False):
    return Moment(number, parent, number, 5, (), (), (), stale, seeded, (), has_block=False)


def log_of(*moments, heads=None, snapshots=None):
    log = WorldLog(moments={each.id: each for each in moments})
    for branch, at in (heads or {}).items():
        log.branches[branch] = Branch(branch)
        log.heads[branch] = [Kept(branch, at, "1.safetensors", 9, b"")]
    for name, at in (snapshots or {}).items():
        log.snapshots[name] = Kept(name, at, "1.safetensors", 9, b"")
    return log


def test_a_straight_walk_is_summed_up():
    seeds = [moment(number, number - 1, seeded=True) for number in range(3)]
    walk = [moment(number, number - 1, stale=number % 2 == 0) for number in range(3, 10)]
    assert tree_lines(log_of(*seeds, *walk, heads={"main": 9})) == [
        "│   3 chunks",
        "●   moment 2  chunk 2  what the world began with",
        "│   7 chunks, 3 with a stale recall",
        "●   moment 9  chunk 9  head of main",
    ]


def test_what_forks_off_is_indented_and_the_newest_line_goes_on():
    log = log_of(
        moment(0, NO_MOMENT),
        moment(1, 0),
        moment(2, 1),
        moment(3, 1),
        moment(4, 3),
        heads={"main": 2, "door": 4},
        snapshots={"before": 1},
    )
    assert tree_lines(log) == [
        "│   2 chunks",
        '●   moment 1  chunk 1  snapshot "before", 2 ways on',
        "├─╮",
        "│ ●   moment 2  chunk 2  head of main",
        "│   2 chunks",
        "●   moment 4  chunk 4  head of door",
    ]


def test_a_branch_of_a_branch_is_indented_twice_and_a_lost_end_says_so():
    log = log_of(moment(0, NO_MOMENT), moment(1, 0), moment(2, 1), moment(3, 1), moment(4, 0), heads={"main": 4})
    assert tree_lines(log) == [
        "●   moment 0  chunk 0  2 ways on",
        "├─╮",
        "│ ●   moment 1  chunk 1  2 ways on",
        "│ ├─╮",
        "│ │ ●   moment 2  chunk 2  nothing follows",
        "│ ●   moment 3  chunk 3  nothing follows",
        "●   moment 4  chunk 4  head of main",
    ]


def test_a_tree_of_endless_branches_is_cut_and_a_long_one_is_quick():
    moments = [moment(0, NO_MOMENT)]
    for level in range(1, 3000):  # what goes on is one moment, what forks off forks again
        moments += [moment(level, level - 1), moment(9000 - level, level - 1)]
    lines = tree_lines(log_of(*moments))
    assert any("not drawn" in line for line in lines)
    assert max(line.count("│") for line in lines) <= MAX_DEPTH + 1


def test_nothing_drawn_yet():
    assert tree_lines(WorldLog()) == ["nothing was drawn yet"]
