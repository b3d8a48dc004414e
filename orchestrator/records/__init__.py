"""What is stored: every document of the system, as the core knows it.

Documents are frozen; a change is a copy. Times are integer milliseconds of the store's clock, names
end in ``_ms``. JSON that only travels through us (tools, metadata, content parts) is kept as it
came.
"""

from orchestrator.records.aggregate import (
    Aggregate,
)
from orchestrator.records.calls import (
    CallState,
    Executor,
    Isolation,
    LateResult,
    NeedsApproval,
    SideEffects,
    ToolCall,
    ToolSpec,
)
from orchestrator.records.guards import (
    Firing,
    Guarded,
    GuardPoint,
)
from orchestrator.records.record import (
    DEFAULT_TENANT,
    EVERYBODY,
    Json,
    Metadata,
    Record,
)
from orchestrator.records.runs import (
    IncompleteReason,
    LastError,
    Price,
    Run,
    RunSpec,
    Step,
    StepStatus,
    Usage,
)
from orchestrator.records.tallies import (
    Tally,
    tally_of_turn,
)
from orchestrator.records.threads import (
    AskedCall,
    Assistant,
    CallRound,
    Entry,
    Message,
    MessageStatus,
    Output,
    Spans,
    Summary,
    Thread,
    Waiting,
)

__all__ = [
    "DEFAULT_TENANT",
    "EVERYBODY",
    "Aggregate",
    "AskedCall",
    "Assistant",
    "CallRound",
    "CallState",
    "Entry",
    "Executor",
    "Firing",
    "GuardPoint",
    "Guarded",
    "IncompleteReason",
    "Isolation",
    "Json",
    "LastError",
    "LateResult",
    "Message",
    "MessageStatus",
    "Metadata",
    "NeedsApproval",
    "Output",
    "Price",
    "Record",
    "Run",
    "RunSpec",
    "SideEffects",
    "Spans",
    "Step",
    "StepStatus",
    "Summary",
    "Tally",
    "Thread",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "Waiting",
    "tally_of_turn",
]
