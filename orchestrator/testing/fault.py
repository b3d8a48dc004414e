"""What may be made to go wrong with a call."""

from enum import StrEnum


class Fault(StrEnum):
    """One per attempt of a tool's call. The tool always does its work; the fault comes after."""

    KILLED = "killed"
    """Its worker dies before it can answer, and the lease runs out."""
    LATE = "late"
    """Its lease runs out, and then it answers all the same."""
    TWICE = "twice"
    """Its job is delivered twice, as queues do after a failover."""
    EXPIRED = "expired"
    """The run's deadline passes, and the call is stopped."""
