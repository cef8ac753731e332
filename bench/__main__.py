"""The command line: `python -m bench NAME …`. A bench is a module with `main(argv) -> int`, imported on demand."""

import importlib
import sys

BENCHES = {
    "classifier": "can a small network tell invented places from rendered ones?",
    "codec": "int4: bits, error and speed against memcpy",
    "drift": "does a long walk keep its contrast, colour and detail?",
    "eviction": "what DRAM should forget: ours, LRU, FIFO and an oracle",
    "film": "the README's picture and clip of a walk, by the real client",
    "identity": "is what was left and come back to the same, byte for byte?",
    "io": "the slab against fio and file formats",
    "model": "speed of a model, and what its memory costs",
    "pager": "prefetch, stalls and bytes of a walk, against the real pager",
    "paper": "the paper's claims beside ours: runs the set, writes docs/paper.md",
    "pictures": "the README's pictures: the forgetting curve, and a place seen again",
    "planner": "a search that goes back and forks, and rollouts a second",
    "record": "walk a real session, and keep the walk as a trace for the pager bench",
    "recall": "how long a recall takes, whatever the disk does; input to plan",
    "residency": "a thousand sessions in RAM, ten thousand on disk, any of them steps on demand",
    "revisit": "is it still there? return to a place, with and without recall",
    "snapshot": "what keeping a moment, forking and going back cost, against a model step",
    "state": "what the state is, found by dropping and corrupting each part of it",
    "tail": "below the critical rate: does prefetching wait longer than loading on demand?",
}


def main() -> int:
    """Run the bench that the first argument names."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] not in BENCHES:
        print("usage: python -m bench NAME [--help]\n")
        for name, what in BENCHES.items():
            print(f"  {name:10} {what}")
        return 0 if arguments[:1] == ["--help"] else 2
    return importlib.import_module(f"bench.{arguments[0]}").main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main())
