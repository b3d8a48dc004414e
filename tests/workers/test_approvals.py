"""Calls that wait to be approved, with a worker that would start them at once."""

import json

from orchestrator.commands import AnswerApprovals, Approval
from orchestrator.records import CallState
from orchestrator.shell import change_run
from tests.workers.scene import Asked, Scene, noted
from tests.workers.test_loss import settled_by_timers


async def answer(asked: Asked, approval: Approval) -> None:
    """An operator's word."""
    await change_run(asked.scene.store, asked.ref, AnswerApprovals((approval,)))
    await asked.scene.deliver()


async def test_only_the_approved_call_is_started_and_with_the_edited_arguments(
    scene: Scene,
) -> None:
    scene.start_worker()
    arguments = {"path": str(scene.notes), "text": "a lot"}
    yes, no = await scene.ask_many([("count_with_approval", arguments)] * 2)
    await answer(no, Approval(no.id, is_approved=False))
    edited = json.dumps(arguments | {"text": "a little"})
    await answer(yes, Approval(yes.id, is_approved=True, arguments=edited))
    assert (await yes.settled()).state is CallState.SUCCEEDED
    outputs = await scene.store.read_outputs(yes.ref.thread_id, [(await yes.now()).output_seq or 0])
    assert outputs[yes.id] == "a little"
    assert (await no.output())["error"]["type"] == "rejected"
    assert len(await noted(scene.notes)) == 1


async def test_the_clock_rejects_what_nobody_answers(scene: Scene) -> None:
    asked = await scene.ask("count_with_approval", path=str(scene.notes), text="a lot")
    assert (await settled_by_timers(asked)).state is CallState.FAILED
    assert (await asked.output())["error"]["type"] == "approval_timed_out"
    assert not scene.notes.exists()
