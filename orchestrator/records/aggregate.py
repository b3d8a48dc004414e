"""What one command may read and change; everything in it is committed together."""

from orchestrator.records.calls import CallState, ToolCall
from orchestrator.records.record import Record
from orchestrator.records.runs import Run, RunSpec, Step
from orchestrator.records.threads import Thread


class Aggregate(Record):
    """One thread's lock and tail, and one run with its steps and calls (``None``: no run is meant).

    ``steps`` is ordered by index, ``calls`` by (step, index). ``partial`` is what the model has
    said so far of a message that is still open.
    """

    thread: Thread
    run: Run | None = None
    spec: RunSpec | None = None
    steps: tuple[Step, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    partial: str = ""

    def call(self, call_id: str) -> ToolCall | None:
        """The call with this id, if the run has it."""
        return next((c for c in self.calls if c.id == call_id), None)

    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls that have no output yet."""
        return tuple(c for c in self.calls if not c.is_settled)

    def client_calls(self) -> tuple[ToolCall, ...]:
        """Calls that wait for the client, in the model's order."""
        return tuple(c for c in self.calls if c.state is CallState.REQUIRED)

    def calls_to_approve(self) -> tuple[ToolCall, ...]:
        """Calls that wait to be approved or rejected, in the model's order."""
        return tuple(c for c in self.calls if c.state is CallState.AWAITING_APPROVAL)
