"""A route that looks around twice in eight seconds: what was seen first has left the fast tiers by then."""

import json

TURNS = 2
SECONDS = 8.0
RAD_PER_COUNT = 0.0025


def write_turning_route(folder) -> str:
    """The path of the route file."""
    path = folder / "turning.jsonl"
    counts = TURNS * 6.2832 / RAD_PER_COUNT / SECONDS
    lines = [{"t_s": float(second), "keys": "", "mouse": [counts if second else 0.0, 0.0]} for second in range(60)]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return str(path)
