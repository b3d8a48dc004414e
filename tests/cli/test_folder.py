"""The data folder of ``runstate dev``, and what a killed one leaves in it."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli.failure import Failure
from cli.folder import DataFolder
from cli.leftovers import stop_leftovers
from cli.program import environment, python

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
NOBODY: dict[str, object] = {"store": None, "api": None, "engine": [], "workers": []}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    folder = DataFolder(tmp_path / "data")
    with folder.opened():
        yield folder


Sleeper = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    """Starts a process that sleeps, with these options of Python; it is up when this returns."""
    with ExitStack() as processes:

        def start(*options: str) -> "subprocess.Popen[bytes]":
            process = processes.enter_context(
                subprocess.Popen([sys.executable, *options, "-c", SLEEPS], stdout=subprocess.PIPE)
            )
            processes.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            return process

        yield start


def test_a_folder_has_one_user_at_a_time(folder: DataFolder) -> None:
    with pytest.raises(Failure, match="Another runstate dev"), DataFolder(folder.home).opened():
        pass


def test_a_folder_is_free_after_its_user(tmp_path: Path) -> None:
    with DataFolder(tmp_path).opened():
        pass
    with DataFolder(tmp_path).opened():
        pass


def test_the_folder_keeps_itself_out_of_git(folder: DataFolder) -> None:
    assert (folder.home / ".gitignore").read_text() == "*\n"


def test_processes_are_read_as_they_were_written(folder: DataFolder) -> None:
    assert folder.read_processes() == NOBODY
    folder.write_processes({"store": 1, "api": 2, "engine": [3], "workers": [4, 5]})
    assert json.loads((folder.home / "processes.json").read_text()) == {
        "store": 1,
        "api": 2,
        "engine": [3],
        "workers": [4, 5],
    }
    folder.forget_processes()
    assert folder.read_processes() == NOBODY


def test_the_log_of_any_name_is_a_file_in_the_folder(folder: DataFolder) -> None:
    assert folder.log("worker ../mail 1") == folder.home / "logs" / "worker----mail-1.log"


def test_leftovers_of_a_killed_dev_are_stopped(folder: DataFolder, sleeper: Sleeper) -> None:
    ours = sleeper("-X", f"runstate={folder.home}")
    folder.write_processes({"store": None, "api": None, "engine": [ours.pid], "workers": []})

    assert stop_leftovers(folder) == [ours.pid]

    assert ours.wait(timeout=10) == -signal.SIGTERM
    assert folder.read_processes() == NOBODY


def test_a_stranger_with_the_id_of_a_leftover_is_not_touched(
    folder: DataFolder, sleeper: Sleeper
) -> None:
    stranger, neighbour = sleeper(), sleeper("-X", f"runstate={folder.home}2")
    folder.write_processes(
        {"store": None, "api": stranger.pid, "engine": [neighbour.pid], "workers": []}
    )
    assert stop_leftovers(folder) == []
    assert stranger.poll() is None
    assert neighbour.poll() is None


def test_our_modules_run_whatever_the_current_folder_holds(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "__init__.py").write_text("raise SystemExit('the wrong api')")
    source = python("api", mark=str(tmp_path))
    found = subprocess.run(
        [*source[:-2], "-c", "import api; print(api.__file__)"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(tmp_path) not in found.stdout
