"""What clients are shown of a run. The one place where the public status is made.

Stock clients stop polling at ``requires_action`` and then run every call they are shown. So they
see it only while a call waits for *them*, with only those calls; while just workers are busy, the
run is ``in_progress`` to them. Calls that wait to be approved come after those: they are shown in a
form of their own, which not every client knows.
"""

from collections.abc import Iterable

from orchestrator.records import CallState, Run, ToolCall
from orchestrator.states import RunStatus


def required_calls(run: Run, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls that the client must answer now, in the model's order; if there are none, those
    that wait to be approved.
    """
    if run.status is not RunStatus.REQUIRES_ACTION:
        return ()
    ledger = tuple(calls)
    required = tuple(call for call in ledger if call.state is CallState.REQUIRED)
    return required or tuple(call for call in ledger if call.state is CallState.AWAITING_APPROVAL)


def public_status(run: Run, calls: Iterable[ToolCall]) -> RunStatus:
    """The status that clients are shown."""
    if run.status is RunStatus.REQUIRES_ACTION and not required_calls(run, calls):
        return RunStatus.IN_PROGRESS
    return run.status
