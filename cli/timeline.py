"""The story of a run, from the report of ``GET /ops/runs/{id}``."""

import json
from dataclasses import dataclass
from typing import Any, Final

from cli.terminal import duration, one_line

Report = dict[str, Any]
Call = dict[str, Any]

TOLD: Final = frozenset(
    {
        "run.queued",
        "run.in_progress",
        "run.requires_action",
        "run.cancelling",
        "run.cancelled",
        "run.failed",
        "run.completed",
        "run.incomplete",
        "run.expired",
        "turn.lost",
        "call.lost",
        "message.completed",
        "message.incomplete",
    }
)
"""Events that are told as they are; what else happens to calls is told from the ledger."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened. ``at_ms`` is of the store's clock."""

    at_ms: int
    subject: str
    text: str

    def line(self, since_ms: int) -> str:
        """The happening with its distance from the beginning."""
        return f"{(self.at_ms - since_ms) / 1000:+9.3f} s  {self.subject:<7} {self.text}"


def timeline(report: Report) -> list[Happening]:
    """All that happened so far, oldest first. A later report only adds to it."""
    arguments = _arguments(report)
    named = [
        (one_line(f"{call['name']}({arguments.get(call['id'], '')})", 70), call)
        for call in report["calls"]
    ]
    # In this order within a millisecond: an answer makes a status, a status makes a call.
    told = [happening for name, call in named for happening in _ending(name, call)]
    told += [_event(event) for event in report["events"] if event["type"] in TOLD]
    told += [happening for name, call in named for happening in _beginning(name, call)]
    return sorted(told, key=lambda happening: happening.at_ms)


def began_ms(report: Report) -> int:
    """When the run was created."""
    first: int = report["events"][0]["at_ms"]
    return first


def _event(event: dict[str, Any]) -> Happening:
    subject, what = event["type"].split(".", 1)
    if subject == "run" and event["public_status"] != event["status"]:
        what = f"{what} (clients see {event['public_status']})"
    if event["detail"]:
        what = f"{what}: {one_line(event['detail'])}"
    return Happening(event["at_ms"], subject, what)


def _beginning(name: str, call: Call) -> list[Happening]:
    is_asked = call["approve_by_ms"] is not None
    asked_for = f"{name} asked for{', to be approved' if is_asked else ''}"
    story = [Happening(call["created_ms"], "call", asked_for)]
    if call["approved_ms"] is not None:
        story.append(Happening(call["approved_ms"], "call", f"{name} approved"))
    if call["started_ms"] is not None:
        attempt = f", attempt {call['attempts']}" if call["attempts"] > 1 else ""
        on = f"{name} started on {call['worker']}{attempt}"
        story.append(Happening(call["started_ms"], "call", on))
    return story


def _ending(name: str, call: Call) -> list[Happening]:
    story = [
        Happening(late["at_ms"], "call", f"{name} came late and was not used")
        for late in call["late"]
    ]
    if call["finished_ms"] is not None:
        took = duration((call["finished_ms"] - (call["started_ms"] or call["created_ms"])) / 1000)
        error = f": {one_line(call['error'])}" if call["error"] else ""
        by = call["worker"] or call["executor"]
        text = f"{name} {call['state']} after {took}, by {by}{error}"
        story.append(Happening(call["finished_ms"], "call", text))
    return story


def _arguments(report: Report) -> dict[str, str]:
    """The arguments of each call as the steps tell them: ``limit=3, search="tea"``."""
    return {
        call["id"]: _keywords(call["function"]["arguments"])
        for step in report["steps"]
        for call in step["step_details"].get("tool_calls", ())
        if call["type"] == "function"
    }


def _keywords(arguments: str) -> str:
    """As Python would write them; as they are if the model did not write an object."""
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return arguments
    if not isinstance(parsed, dict):
        return arguments
    return ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in parsed.items()
    )
