"""A disk that reads no faster than it is told: a token bucket over the real one. Disk readers call it."""

import threading
import time

from server.pager.move.disk import RealDisk


class ThrottledDisk(RealDisk):
    """Reads of all readers together keep to `read_bytes_per_s`; everything else is the real disk's.

    Each read is given the next stretch of the bandwidth and ends no earlier than that stretch: the real read runs
    meanwhile, so a drive that is fast enough costs nothing on top. An idle disk saves nothing up.
    """

    def __init__(self, read_bytes_per_s: float) -> None:
        self._read_bytes_per_s = read_bytes_per_s
        self._lock = threading.Lock()
        self._given_until_s = 0.0

    def read(self, fd: int, into: memoryview, offset: int) -> int:
        with self._lock:
            self._given_until_s = max(self._given_until_s, time.monotonic()) + len(into) / self._read_bytes_per_s
            until_s = self._given_until_s
        count = super().read(fd, into, offset)
        time.sleep(max(0.0, until_s - time.monotonic()))
        return count
