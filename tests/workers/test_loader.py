"""Which tools a worker serves, and what it says when there are none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.loading import NotLoaded, load_function, load_tools
from tests.workers.scene import TOOLBOX
from workers.loader import for_queue, isolation, queues

ROOT = Path(__file__).parents[2]
TOOL = "from orchestrator import tool\n\n@tool\ndef {name}() -> str:\n    return '{name}'\n"


def module(folder: Path, text: str, name: str = "json.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_tools_are_found_by_dotted_name_and_by_file(tmp_path: Path) -> None:
    assert "add" in load_tools("tests.workers.toolbox")
    assert set(load_tools(module(tmp_path, TOOL.format(name="ping")))) == {"ping"}
    assert json.__name__ == "json"  # a tools file may be called like a module that is in use


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    module(tmp_path, TOOL.format(name="ping"), "neighbour_of_tools.py")
    source = module(tmp_path, "from neighbour_of_tools import ping\nagain = ping\n")
    assert set(load_tools(source)) == {"ping"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import no_such_thing", "cannot be imported: No module named 'no_such_thing'"),
        ("x = 1", "has no tools: mark functions with @tool"),
        ("def ping(:", r"cannot be imported: SyntaxError: invalid syntax \(json.py, line 1\)"),
        ("x = 1\n\nx()", r"TypeError: 'int' object is not callable \(.*json.py, line 3\)"),
        ("from orchestrator import tool\n\n@tool\ndef f(a): ...", r"type hint.*json.py, line 3\)"),
        (
            "raise RuntimeError('no\\ndatabase.')",
            r"RuntimeError: no database \(.*json.py, line 1\)",
        ),
        ("raise SystemExit", "SystemExit: "),
        (TOOL.format(name="ping") + "first = ping\n" + TOOL.format(name="ping"), "two tools named"),
    ],
)
def test_modules_without_usable_tools_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(NotLoaded, match=sentence):
        load_tools(module(tmp_path, text))


@pytest.mark.parametrize("source", ["no_such_module", "no/such/file.py"])
def test_what_is_not_there_is_named(source: str) -> None:
    with pytest.raises(NotLoaded, match=source):
        load_tools(source)


def test_tools_of_several_modules_are_served_together_unless_two_have_one_name(
    tmp_path: Path,
) -> None:
    ping = module(tmp_path, TOOL.format(name="ping"), "ping_tools.py")
    pong = module(tmp_path, TOOL.format(name="pong"), "pong_tools.py")
    again = module(tmp_path, TOOL.format(name="ping"), "more_tools.py")
    assert set(load_tools(ping, pong, ping)) == {"ping", "pong"}
    with pytest.raises(NotLoaded, match="two tools named ping"):
        load_tools(ping, again)


def test_a_function_is_found_by_module_and_name(tmp_path: Path) -> None:
    source = module(tmp_path, "def shout(text):\n    return text.upper()\nloud = 7\n")
    assert load_function(f"{source}:shout")("a") == "A"
    for wrong in (source, f"{source}:loud", f"{source}:whisper", "no_such_module:shout"):
        with pytest.raises(NotLoaded):
            load_function(wrong)


def test_a_queue_has_its_own_tools_and_an_unknown_one_is_refused() -> None:
    tools = load_tools("tests.workers.toolbox")
    assert queues(tools) == ["gpu", "others", "tools", "tools-io"]
    assert set(for_queue(tools, "others")) == {"elsewhere"}
    with pytest.raises(NotLoaded, match="these tools are on gpu, others, tools, tools-io"):
        for_queue(tools, "nobody")


def test_tools_of_both_kinds_on_one_queue_are_refused() -> None:
    tools = load_tools("tests.workers.toolbox")
    assert isolation(for_queue(tools, "tools-io")) == "inline"
    with pytest.raises(NotLoaded, match="give them queues of their own"):
        isolation(tools)


def run_workers(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """The command as ``runstate worker`` starts it: with nothing of the folder on the path."""
    command = [sys.executable, "-P", "-m", "workers", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, env=environment
    )


def test_the_command_prints_the_queues_that_tools_need() -> None:
    done = run_workers("--tools", str(TOOLBOX), "--print-queues")
    assert (done.returncode, json.loads(done.stdout)) == (0, ["gpu", "others", "tools", "tools-io"])


def test_a_module_may_print_and_its_words_are_no_answer(tmp_path: Path) -> None:
    source = module(tmp_path, "print('loading')\n" + TOOL.format(name="ping"))
    done = run_workers("--tools", source, "--print-queues")
    assert (done.returncode, done.stdout, done.stderr) == (0, '["tools"]\n', "loading\n")


def test_a_dotted_name_is_looked_for_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    module(tmp_path / "shop", TOOL.format(name="ping"), "tools.py")
    module(tmp_path, "raise RuntimeError('must not be imported')", "redis.py")
    done = run_workers("--tools", "shop.tools", "--print-queues", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, '["tools"]\n')


def test_the_command_ends_with_one_sentence_and_code_2_without_tools() -> None:
    done = run_workers("--tools", "no_such_module", "--queue", "tools")
    assert done.returncode == 2
    assert done.stderr == ("no_such_module cannot be imported: No module named 'no_such_module'.\n")
