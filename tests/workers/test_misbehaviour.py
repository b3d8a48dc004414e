"""Whatever a tool does, the model can read what came of it, and its worker lives."""

from typing import Any, Final

import pytest

from orchestrator.commands import Cancel
from orchestrator.records import CallState
from orchestrator.shell import change_run
from tests.workers.scene import Scene, gone, noted
from tests.workers.test_loss import settled_by_timers

ERRORS: Final[tuple[tuple[str, dict[str, Any], CallState, str], ...]] = (
    ("fail", {"message": "no such book"}, CallState.FAILED, "exception"),
    ("leave_by_exit", {}, CallState.FAILED, "exception"),
    ("give_nonsense", {}, CallState.FAILED, "not_json"),
    ("add", {"a": "one", "b": 2}, CallState.FAILED, "invalid_arguments"),
    ("oversleep", {}, CallState.TIMED_OUT, "timeout"),
    ("oversleep_async", {}, CallState.TIMED_OUT, "timeout"),
    ("try_again_and_again", {}, CallState.TIMED_OUT, "timeout"),
    ("vanish", {"code": 0}, CallState.UNKNOWN, "unknown_outcome"),
    ("vanish", {"code": 3}, CallState.UNKNOWN, "unknown_outcome"),
    ("crash", {}, CallState.UNKNOWN, "unknown_outcome"),
    ("raise_oddly", {}, CallState.FAILED, "exception"),
)


async def test_however_a_tool_misbehaves_there_is_an_error_to_read_and_the_worker_goes_on(
    scene: Scene,
) -> None:
    worker = scene.start_worker()
    asked = await scene.ask_many([(name, arguments) for name, arguments, _, _ in ERRORS])
    sound = await scene.ask("add", a=1, b=2)
    assert await sound.output() == 3
    for call, (name, _, state, kind) in zip(asked, ERRORS, strict=True):
        error = (await call.output())["error"]
        assert (name, (await call.now()).state, error["type"]) == (name, state, kind)
        assert error["retryable"] is False
        assert "Traceback" not in error["message"]
    assert worker.poll() is None


async def test_an_output_over_the_limit_is_shown_in_part(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("give_much")
    output = await asked.output()
    assert (output["truncated"], output["total_bytes"]) == (True, 5_000_000)
    assert (await asked.now()).state is CallState.SUCCEEDED


async def test_async_tools_have_an_event_loop(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("add_slowly", a=1, b=2)
    assert await asked.output() == {"sum": 3}


@pytest.mark.parametrize(
    ("name", "within_s"),
    [
        pytest.param("try_again_and_again", 0.3 + 1.5, id="the first alarm"),
        pytest.param("be_stubborn", 0.3 + 2 + 1.5, id="the second alarm kills"),
    ],
)
async def test_a_tool_that_swallows_exceptions_does_not_outlive_its_time_limit(
    scene: Scene, name: str, within_s: float
) -> None:
    scene.start_worker()
    asked = await scene.ask(name)
    call = await asked.settled()
    assert call.state is CallState.TIMED_OUT
    assert ((call.finished_ms or 0) - (call.started_ms or 0)) / 1000 < within_s


async def test_a_tool_that_no_signal_reaches_is_ended_by_the_parent(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("be_deaf")
    assert (await settled_by_timers(asked)).state is CallState.TIMED_OUT  # and not lost before


async def test_what_a_tool_leaves_running_ends_with_its_call(scene: Scene) -> None:
    note = scene.folder / "pid"
    scene.start_worker()
    asked = await scene.ask("start_a_process", path=str(note))
    await asked.settled()
    await gone(int(note.read_text()), within_s=5)


async def test_what_a_tool_has_started_ends_when_it_is_stopped(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("start_a_process_and_wait", path=str(scene.folder / "pid"))
    (process,) = await noted(scene.folder / "pid")
    await change_run(scene.store, asked.ref, Cancel(5_000))
    await scene.deliver()
    await gone(process, within_s=5)
    assert (await asked.now()).state is CallState.CANCELLED


async def test_a_thread_that_a_tool_leaves_ends_with_its_call(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("leave_a_thread", path=str(scene.notes))
    (child,) = await noted(scene.notes)
    assert (await asked.settled()).state is CallState.SUCCEEDED
    await gone(child, within_s=5)


async def test_a_tool_that_holds_the_interpreter_loses_its_calls_and_is_fenced(
    scene: Scene,
) -> None:
    worker = scene.start_worker("tools-io")
    seconds = scene.settings.call_lease_s + 2
    asked = await scene.ask("hold_the_interpreter", path=str(scene.notes), seconds=seconds)
    call = await settled_by_timers(asked)
    assert call.state is CallState.UNKNOWN
    assert (await (await scene.ask("wait", seconds=0)).settled()).state is CallState.SUCCEEDED
    assert (await asked.now()).but(late=()) == call.but(late=())
    assert len(await noted(scene.notes)) == 1
    assert worker.poll() is None


async def test_a_call_of_a_tool_that_its_worker_has_not_loaded_is_answered_at_once(
    scene: Scene,
) -> None:
    tools = scene.folder / "older_tools.py"
    tools.write_text("from orchestrator import tool\n\n@tool\ndef other() -> str:\n    return ''\n")
    worker = scene.start_worker(tools=tools)
    asked = await scene.ask("add", a=1, b=2)
    assert (await asked.output())["error"]["type"] == "tool_not_loaded"
    assert worker.poll() is None
