"""The plugin as users have it: found by pytest itself, in a folder of their own."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from orchestrator.testing import Fault

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "testing.md").read_text()
PLUGIN = "orchestrator.testing.plugin"
LOADED_LATER = {"asyncio", "orchestrator.store", "pydantic", "redis", "rq", "structlog"}


def tried(folder: Path, source: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """What pytest says of this file."""
    (folder / "test_example.py").write_text(source)
    # It is installed where the project is; where only its folder is used, pytest must be told.
    loading = [] if entry_points(group="pytest11", name="runstate") else ["-p", PLUGIN]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *loading, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("store", ["embedded", "fakeredis"])
@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL))
def test_the_examples_of_the_document_pass(tmp_path: Path, example: str, store: str) -> None:
    done = tried(tmp_path, example, "-o", f"runstate_store={store}")
    assert "2 passed" in done.stdout, done.stdout


def test_an_unknown_store_is_a_usage_error(tmp_path: Path) -> None:
    done = tried(tmp_path, "def test(runs): ...", "-o", "runstate_store=sqlite")
    assert done.returncode != 0
    assert "runstate_store = sqlite: embedded or fakeredis." in done.stdout + done.stderr


def test_pytest_finds_it_where_the_project_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"runstate": PLUGIN}


def test_it_loads_nothing_until_it_is_asked() -> None:
    source = f"import sys, {PLUGIN}; print(*{LOADED_LATER} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.split() == []


def test_the_document_lists_every_fault() -> None:
    assert re.findall(r"^\| `Fault\.(\w+)`", DOCUMENT, re.MULTILINE) == list(Fault.__members__)
