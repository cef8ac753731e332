"""A stopwatch for the stages of one chunk."""

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stages:
    """How long each stage of a chunk took, in milliseconds."""

    ms: dict[str, float] = field(default_factory=dict[str, float])
    _at_s: float = field(default_factory=time.perf_counter)

    def mark(self, stage: str) -> None:
        now_s = time.perf_counter()
        self.ms[stage] = round((now_s - self._at_s) * 1000.0, 3)
        self._at_s = now_s
