"""What a tool may know of its call, say about it, and ask for."""

import pytest

from orchestrator import current_call
from orchestrator.decisions import EventType
from orchestrator.records import CallState
from tests.workers.scene import Scene, noted
from tests.workers.test_loss import settled_by_timers
from workers.attempt import succeeded


@pytest.mark.parametrize("how", ["retry", "declared"])
async def test_a_tool_that_asks_for_it_is_called_again_though_it_has_side_effects(
    scene: Scene, how: str
) -> None:
    scene.start_worker()
    asked = await scene.ask("succeed_at_last", path=str(scene.notes), how=how)
    call = await settled_by_timers(asked)
    assert (call.state, call.attempts) == (CallState.SUCCEEDED, 3)
    assert len(await noted(scene.notes)) == 3


@pytest.mark.parametrize(
    ("queue", "name"),
    [("tools", "tell_about_the_call"), ("tools-io", "tell_about_the_call_inline")],
)
async def test_a_tool_knows_its_call_and_tells_its_progress(
    scene: Scene, queue: str, name: str
) -> None:
    scene.start_worker(queue)
    asked = await scene.ask(name, 30_000)
    told = await asked.output()
    assert told["ids"] == [asked.ref.thread_id, asked.ref.run_id, asked.id]
    assert 25 < told["left_s"] <= 30
    events = [event for _, event in await scene.store.read_events(asked.ref)]
    progress = [event for event in events if event.type is EventType.CALL_PROGRESS]
    assert [event.detail for event in progress] == ["50% half way"]
    assert (await asked.now()).progress == "50% half way"


def test_outside_of_a_tool_there_is_no_current_call() -> None:
    with pytest.raises(RuntimeError, match="inside a tool"):
        current_call()


async def test_a_traceback_goes_to_the_ledger_and_its_words_not_to_the_log(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("fail", message="the secret")
    error = (await asked.settled()).error or ""
    assert error.startswith("RuntimeError: the secret\n")
    assert "raise RuntimeError(message)" in error
    assert "workers/attempt.py" not in error
    log = scene.log.read_text()
    assert "tool.raised" in log
    assert "the secret" not in log


async def test_the_whole_of_a_long_output_is_kept_up_to_a_megabyte(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("give_much")
    assert (await asked.settled()).has_full_output
    full = await scene.store.read_full_output(asked.ref, asked.id)
    assert full is not None
    assert 1_000_000 < len(full) < 1_001_000


@pytest.mark.parametrize("size", [10, 100_000, 2_000_000])
def test_the_shape_of_an_output_is_that_of_the_whole_however_little_is_kept(size: int) -> None:
    assert succeeded({"a": "x" * size}, limit_bytes=1_000).shape == "{a: text}"


async def test_an_output_of_another_shape_than_before_is_reported(scene: Scene) -> None:
    scene.start_worker()
    drifts = []
    for shape in ("a", "a", "b"):
        call = await (await scene.ask("give_one_of", shape=shape)).settled()
        drifts.append(call.drift)
    assert drifts == [None, None, "{a: number} became {b: number}"]
    assert "tool.output_drifted" in scene.log.read_text()
