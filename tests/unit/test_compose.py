"""The container files: CI has no Docker engine, so their structure is what is tested."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
MAKEFILE = (ROOT / "Makefile").read_text()
EVERY = pytest.mark.parametrize("service", SERVICES.values(), ids=list(SERVICES))


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def test_there_is_one_service_for_each_profile() -> None:
    assert sorted(service["profiles"] for service in SERVICES.values()) == [["cpu"], ["gpu"]]


def test_the_gpu_profile_reserves_one_gpu_and_the_cpu_profile_none() -> None:
    gpu = next(service for service in SERVICES.values() if service["profiles"] == ["gpu"])
    cpu = next(service for service in SERVICES.values() if service["profiles"] == ["cpu"])
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    assert "deploy" not in cpu
    assert cpu["build"]["args"]["TORCH_INDEX"].endswith("/cpu")


@EVERY
def test_worlds_are_on_a_mounted_volume(service: dict[str, Any]) -> None:
    volume, *weights = service["volumes"]
    assert all(other["read_only"] for other in weights)
    assert (volume["type"], volume["target"]) == ("bind", "/worlds")
    assert "WORLDS_DIR" in volume["source"]
    command = service["command"]
    assert command[command.index("--worlds") + 1] == "/worlds"


@EVERY
def test_a_container_can_do_little(service: dict[str, Any]) -> None:
    assert service["user"].split(":")[0] not in ("0", "root")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["ulimits"]["memlock"] == {"soft": -1, "hard": -1}
    assert not {"privileged", "network_mode", "cap_add", "pid", "ipc"} & set(service)


@EVERY
def test_the_port_is_open_on_this_machine_only_and_asks_for_a_token(service: dict[str, Any]) -> None:
    assert service["ports"] == ["127.0.0.1:8765:8765"]
    assert service["environment"]["WORLDPAGER_TOKEN"].startswith("${WORLDPAGER_TOKEN:?")


@EVERY
def test_health_is_checked_and_a_stop_has_time_to_save(service: dict[str, Any]) -> None:
    assert service["healthcheck"]["test"][1:] == [".venv/bin/python", "deploy/health.py"]
    assert (ROOT / "deploy" / "health.py").is_file()
    assert service["stop_grace_period"] == "20s"


def test_the_image_is_installed_by_the_makefile() -> None:
    runs = instructions("RUN")
    assert "make install EXTRAS=${EXTRAS}" in runs
    assert [run for run in runs if "pip" in run.split()] == []
    for target in re.findall(r"\bmake ([a-z-]+)", "\n".join(run for run in runs if "apt-get" not in run)):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), f"the Makefile has no target {target}"
    assert re.search(r"^EXTRAS \?=", MAKEFILE, re.MULTILINE)


def test_the_image_holds_what_the_install_needs_and_ends_as_an_ordinary_user() -> None:
    copied = {path for line in instructions("COPY") for path in line.split()[:-1]}
    assert {"pyproject.toml", "constraints.txt", "Makefile", "shared", "models", "server", "deploy/health.py"} <= copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied <= allowed
    assert instructions("USER") == ["worldpager"]
    assert instructions("ENTRYPOINT") == ['[".venv/bin/python", "-m", "server"]']
    assert DOCKERFILE.index("USER worldpager") < DOCKERFILE.index("ENTRYPOINT")


def test_the_systemd_unit_leaves_time_to_save() -> None:
    unit = (ROOT / "deploy" / "worldpager.service").read_text().splitlines()
    wanted = {"TimeoutStopSec=20", "KillSignal=SIGTERM", "LimitMEMLOCK=infinity", "ProtectSystem=strict", "Type=exec"}
    assert wanted <= set(unit)
