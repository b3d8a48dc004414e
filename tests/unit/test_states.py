"""The table of states: one declaration, and everything that is made from it."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from transitions import MachineError

from orchestrator.errors import IllegalTransition
from orchestrator.states import (
    FINAL,
    LEGAL,
    MACHINE,
    RunStatus,
    Trigger,
    diagram,
    is_final,
    next_status,
)

ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"


@pytest.mark.parametrize("trigger", Trigger)
@pytest.mark.parametrize("status", RunStatus)
def test_the_lookup_says_what_the_machine_does(status: RunStatus, trigger: Trigger) -> None:
    carrier = SimpleNamespace(state=status)
    try:
        MACHINE.events[trigger].trigger(carrier)
    except MachineError:
        with pytest.raises(IllegalTransition) as refusal:
            next_status(status, trigger)
        assert (refusal.value.status, refusal.value.trigger) == (status, trigger)
    else:
        assert next_status(status, trigger) is carrier.state


def test_five_statuses_are_final_and_nothing_leads_out_of_them() -> None:
    assert {"cancelled", "failed", "completed", "incomplete", "expired"} == FINAL
    assert {source for source, _ in LEGAL} == set(RunStatus) - FINAL
    assert [is_final(status) for status in (RunStatus.EXPIRED, RunStatus.QUEUED)] == [True, False]


def test_every_status_can_be_reached_from_the_first_one() -> None:
    reached = {RunStatus.QUEUED}
    for _ in RunStatus:
        reached |= {target for (source, _), target in LEGAL.items() if source in reached}
    assert reached == set(RunStatus)


def test_every_status_that_is_not_final_can_expire_and_be_cancelled() -> None:
    for status in set(RunStatus) - FINAL:
        assert next_status(status, Trigger.EXPIRE) in {RunStatus.EXPIRED, RunStatus.CANCELLED}
        stop = Trigger.CONFIRM_CANCEL if status is RunStatus.CANCELLING else Trigger.CANCEL
        assert next_status(status, stop) in {RunStatus.CANCELLING, RunStatus.CANCELLED}


def test_the_diagram_shows_every_edge_once() -> None:
    lines = diagram().splitlines()
    edges = [f"    {s} --> {target}: {trigger}" for (s, trigger), target in LEGAL.items()]
    ends = [f"    {status} --> [*]" for status in FINAL]
    assert sorted(lines) == sorted(["stateDiagram-v2", "    [*] --> queued", *edges, *ends])


@pytest.mark.skipif(not ARCHITECTURE.exists(), reason="installed without its documents")
def test_the_documents_show_this_diagram() -> None:
    shown = ARCHITECTURE.read_text().split("<!-- states -->")[1].split("<!-- /states -->")[0]
    assert shown.strip() == f"```mermaid\n{diagram()}\n```"
