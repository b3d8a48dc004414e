"""What `runstate tools lint` says, and how it ends."""

import json
import subprocess
import sys
from pathlib import Path

from cli.program import EXAMPLE_TOOLS

TOOLS = '''
from orchestrator import tool

@tool
def delete_user(name: str) -> None:
    """Delete a user with everything that is theirs.

    Args:
        name: The user's login.
    """
'''


def lint(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cli.main", "tools", "lint", *args],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_good_tools_end_with_code_0() -> None:
    done = lint(EXAMPLE_TOOLS)
    assert (done.returncode, done.stdout) == (0, "Nothing to improve.\n")
    assert json.loads(lint(EXAMPLE_TOOLS, "--json").stdout) == []


def test_findings_end_with_code_1_and_say_how_to_do_better(tmp_path: Path) -> None:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    done = lint(str(path))
    assert (done.returncode, done.stderr) == (1, "")
    title, reason, example = done.stdout.splitlines()
    assert title == "delete_user: undeclared-side-effects"
    assert "never repeated" in reason
    assert example.strip().startswith("Better: @tool(side_effects=")


def test_findings_can_be_read_by_programs(tmp_path: Path) -> None:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    done = lint(str(path), "--json")
    (finding,) = json.loads(done.stdout)
    assert done.returncode == 1
    assert finding.keys() == {"tool", "rule", "reason", "example"}


def test_a_module_that_cannot_be_imported_is_named() -> None:
    done = lint("no_such_tools")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no_such_tools" in done.stderr
