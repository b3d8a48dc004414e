"""What guardrails have done: the rules of the operator between users, models and tools."""

from enum import StrEnum
from typing import Literal

from orchestrator.records.record import Record


class GuardPoint(StrEnum):
    """Where a rule looks."""

    INPUT = "input"
    """At what clients have said, before a model is shown it."""
    OUTPUT = "output"
    """At what the model says, before it is stored or shown to anybody."""
    TOOL_INPUT = "tool_input"
    """At the arguments of a call, before anybody executes it."""
    TOOL_OUTPUT = "tool_output"
    """At the output of a call, before a model is shown it."""


class Firing(Record):
    """A rule did not let something pass. ``subject`` is the id of the message or call; ``reason``:
    what a rule that stops says, or what went wrong with one that could not be applied.
    """

    rule: str
    on: GuardPoint
    verdict: Literal["rewrite", "stop"]
    subject: str
    reason: str | None = None

    @property
    def sentence(self) -> str:
        """For people: ``no_spoilers (output) stopped msg_1: The end of a book.``"""
        did = "rewrote" if self.verdict == "rewrite" else "stopped"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.rule} ({self.on}) {did} {self.subject}{reason}"


class Guarded(Record):
    """What models are shown in the place of the entry at ``of_seq`` (a message or an output), from
    here on and in later runs. Clients are shown the entry itself.

    ``is_stopped``: ``text`` is a note and stands for all of it, pictures included.
    """

    kind: Literal["guarded"] = "guarded"
    seq: int
    run_id: str
    of_seq: int
    text: str
    is_stopped: bool = False
