"""The unit of docs/production.md: systemd understands it, and it fits the worker."""

import os
import shutil
import subprocess
import sys
import textwrap
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import pytest

from orchestrator.settings import Settings
from tests.house.command_line import parse
from tests.house.tree import ROOT

TEXT: Final = textwrap.dedent(
    (ROOT / "docs" / "production.md")
    .read_text()
    .partition("## With systemd\n\n")[2]
    .partition("\n`KillMode")[0]
)
UNIT: Final = ConfigParser()
UNIT.optionxform = str  # type: ignore[assignment,method-assign]
UNIT.read_string(TEXT)


def test_a_worker_has_time_to_stop_and_is_not_restarted_in_vain() -> None:
    service = UNIT["Service"]
    assert int(service["TimeoutStopSec"]) > Settings.model_fields["worker_grace_s"].default
    assert service["RestartPreventExitStatus"] == str(os.EX_CONFIG)
    assert service["KillMode"] == "mixed"


def test_the_command_line_knows_its_command() -> None:
    program, *words = UNIT["Service"]["ExecStart"].split()
    assert Path(program).name == "runstate"
    parse(words)


def test_systemd_has_nothing_against_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("this system has no systemd-analyze")
    unit = tmp_path / "runstate-worker.service"
    program = UNIT["Service"]["ExecStart"].split()[0]
    unit.write_text(TEXT.replace(program, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
