"""What clients are shown of a run, over all statuses and ledgers."""

from collections.abc import Iterable

import pytest

from orchestrator.projection import public_status, required_calls
from orchestrator.records import CallState, Executor, Run, ToolCall
from orchestrator.states import RunStatus

WAITING = RunStatus.REQUIRES_ACTION


def a_run(status: RunStatus) -> Run:
    return Run(
        id="run_1",
        thread_id="thread_1",
        status=status,
        created_ms=0,
        deadline_ms=600_000,
        updated_ms=0,
    )


def ledger(states: Iterable[CallState]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            id=f"call_{index}",
            step_id="step_1",
            index=index,
            name="look_up",
            arguments="{}",
            executor=Executor.CLIENT if state is CallState.REQUIRED else Executor.WORKER,
            state=state,
            created_ms=0,
        )
        for index, state in enumerate(states)
    )


def test_a_client_sees_only_the_calls_that_wait_for_it_in_the_models_order() -> None:
    calls = ledger([CallState.REQUIRED, CallState.STARTED, CallState.REQUIRED, CallState.SUCCEEDED])
    assert [call.id for call in required_calls(a_run(WAITING), calls)] == ["call_0", "call_2"]
    assert public_status(a_run(WAITING), calls) is WAITING


def test_calls_to_be_approved_are_shown_once_no_other_call_waits_for_the_client() -> None:
    states = [CallState.AWAITING_APPROVAL, CallState.REQUIRED, CallState.AWAITING_APPROVAL]
    assert [c.id for c in required_calls(a_run(WAITING), ledger(states))] == ["call_1"]
    calls = ledger([CallState.AWAITING_APPROVAL, CallState.SUCCEEDED, CallState.STARTED])
    assert [c.id for c in required_calls(a_run(WAITING), calls)] == ["call_0"]
    assert public_status(a_run(WAITING), calls) is WAITING


FOR_CLIENTS = {CallState.REQUIRED, CallState.AWAITING_APPROVAL}


@pytest.mark.parametrize("state", [s for s in CallState if s not in FOR_CLIENTS])
def test_a_run_that_waits_for_no_client_is_shown_in_progress(state: CallState) -> None:
    calls = ledger([state, CallState.SUCCEEDED])
    assert public_status(a_run(WAITING), calls) is RunStatus.IN_PROGRESS
    assert required_calls(a_run(WAITING), calls) == ()


@pytest.mark.parametrize("status", [s for s in RunStatus if s is not WAITING])
def test_every_other_status_is_shown_as_it_is_and_requires_nothing(status: RunStatus) -> None:
    calls = ledger([CallState.REQUIRED])
    assert public_status(a_run(status), calls) is status
    assert required_calls(a_run(status), calls) == ()
