"""The app file at the command line: checked, found, and refused by every process alike."""

import os
import subprocess
from pathlib import Path

import pytest

from cli.program import EXAMPLE_APP, environment, python
from cli.stack import StackOptions, _app_of
from orchestrator.settings import Settings

WRONG = "limits: {max_turn: 3}\ntool_modules:\n- no.such\n"

COMMANDS = {
    "check": ("cli.main", "check"),
    "api": ("api",),
    "engine": ("orchestrator.engine",),
    "worker": ("workers", "--queue", "tools"),
}


def run(command: tuple[str, ...], folder: Path, **told: str) -> "subprocess.CompletedProcess[str]":
    """A process of ours, in this folder, at its end."""
    return subprocess.run(
        python(*command),
        cwd=folder,
        env=environment(**told),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_right_file_is_said_to_be_right(tmp_path: Path) -> None:
    done = run(("cli.main", "check", str(EXAMPLE_APP)), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{EXAMPLE_APP} is right: 1 assistant, 5 tools, 1 tool switched off, 1 model route,"
        " 1 price, 4 guardrails, 4 limits.\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_process_refuses_a_wrong_file_in_the_same_words(tmp_path: Path, name: str) -> None:
    (tmp_path / "runstate.yaml").write_text(WRONG)
    done = run(COMMANDS[name], tmp_path, RUNSTATE_APP_FILE="runstate.yaml")
    assert done.returncode == (1 if name == "check" else os.EX_CONFIG)
    assert done.stdout == ""
    assert done.stderr == (
        "runstate.yaml:1: limits.max_turn: There is no such key.\n"
        "runstate.yaml:3: tool_modules[0]: no.such cannot be imported: No module named 'no'.\n"
    )


def test_the_health_check_of_containers_says_what_is_wrong_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "runstate.yaml").write_text("limits: {max_turn: 3}")
    check = ("orchestrator.alive", "engine")
    done = run(check, tmp_path, RUNSTATE_APP_FILE="runstate.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "runstate.yaml:1: limits.max_turn: There is no such key.\n"


@pytest.mark.parametrize("command", [("orchestrator.alive", "engine"), ("orchestrator.engine",)])
def test_a_store_that_is_not_there_is_said_in_a_sentence(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = run(command, tmp_path, RUNSTATE_REDIS_URL="redis://:secret@127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("The store does not serve us: Error 111 connecting to 127.0.0.1")
    assert "secret" not in done.stderr


@pytest.mark.parametrize("command", ["api", "worker", "dev"])
def test_commands_say_so_before_they_start_anything(tmp_path: Path, command: str) -> None:
    (tmp_path / "runstate.yaml").write_text(WRONG)
    done = run(("cli.main", command), tmp_path, RUNSTATE_APP_FILE="runstate.yaml")
    assert done.returncode == os.EX_CONFIG
    assert done.stderr.endswith(
        "runstate: the app file is wrong:\n"
        "runstate.yaml:1: limits.max_turn: There is no such key.\n"
        "runstate.yaml:3: tool_modules[0]: no.such cannot be imported: No module named 'no'.\n"
    )


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_module_that_cannot_be_imported_may_be_better_next_time(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "runstate.yaml").write_text("tool_modules: [no.such]")
    done = run(COMMANDS[command], tmp_path, RUNSTATE_APP_FILE="runstate.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert "runstate.yaml:1: tool_modules[0]: no.such cannot be imported" in done.stderr


@pytest.mark.parametrize("command", ["worker", "dev"])
def test_the_code_of_the_file_is_looked_at_before_anything_starts(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "runstate.yaml").write_text("tool_modules: [no.such, nor.this]")
    done = run(("cli.main", command), tmp_path, RUNSTATE_APP_FILE="runstate.yaml")
    assert done.returncode == 1
    assert "runstate.yaml:1: tool_modules[0]: no.such cannot be imported" in done.stderr
    assert "runstate.yaml:1: tool_modules[1]: nor.this cannot be imported" in done.stderr


def test_dev_takes_the_file_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "runstate.yaml").write_text("limit: {}")
    done = run(("cli.main", "dev"), tmp_path)
    assert done.returncode == 1
    assert "the app file is runstate.yaml\n" in done.stderr


def test_a_worker_serves_the_modules_of_the_file_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from orchestrator import tool\n\n@tool(queue='shop')\ndef buy() -> str:\n    return ''\n"
    )
    (tmp_path / "runstate.yaml").write_text("tool_modules: [./shop.py]")
    told = {"RUNSTATE_APP_FILE": "runstate.yaml"}
    assert run(("workers", "--print-queues"), tmp_path, **told).stdout == '["shop"]\n'
    other = ("workers", "--tools", "examples.quietreads.tools", "--print-queues")
    assert run(other, tmp_path, **told).stdout == '["tools"]\n'


def test_a_worker_without_any_tools_says_what_is_missing(tmp_path: Path) -> None:
    done = run(("cli.main", "worker"), tmp_path)
    assert (done.returncode, done.stderr) == (
        os.EX_CONFIG,
        "runstate: There is nothing to serve: give --tools, or tool_modules in the app file.\n",
    )


def test_dev_takes_the_file_it_is_given_or_the_one_that_lies_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked, set_ = Path("asked.yaml"), tmp_path / "set.yaml"
    set_.write_text("")
    monkeypatch.setenv("RUNSTATE_APP_FILE", str(set_))
    with_setting = Settings()
    monkeypatch.delenv("RUNSTATE_APP_FILE")
    plain, tools = StackOptions(tmp_path, 1), StackOptions(tmp_path, 1, tools="shop.tools")
    assert _app_of(plain, Settings()) == EXAMPLE_APP
    assert _app_of(tools, Settings()) is None
    Path("runstate.yaml").write_text("")
    assert _app_of(plain, Settings()) == _app_of(tools, Settings()) == Path("runstate.yaml")
    assert _app_of(plain, with_setting) == set_
    assert _app_of(StackOptions(tmp_path, 1, app=asked), with_setting) == asked
