"""What an install brings: the client alone, in a fresh venv, runs without torch."""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROBE = """
import importlib.util, sys
import client.__main__, client.app, client.headless
assert importlib.util.find_spec("torch") is None, "torch was installed"
assert "torch" not in sys.modules
print("plays without torch")
"""


def test_the_client_extra_pulls_no_torch_into_a_fresh_venv(tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    subprocess.run([*install, f"{ROOT}[client]"], check=True, capture_output=True, timeout=900)
    probe = subprocess.run(
        [python, "-c", PROBE], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert probe.stdout.strip().endswith("plays without torch"), probe.stderr
    assert sys.version_info >= (3, 11)
