"""A server as a process of its own, on a free port."""

import subprocess
import sys
from contextlib import contextmanager

import pytest


@contextmanager
def server_process(worlds, *flags):
    """(process, url) of `python -m server` once it is ready; killed at the end if it still runs."""
    command = [sys.executable, "-m", "server", "--worlds", str(worlds), "--port", "0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("ready: "):
                    break
            else:
                pytest.fail("".join(lines))
            yield process, line.removeprefix("ready: ").strip()
        finally:
            if process.poll() is None:
                process.kill()
