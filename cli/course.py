"""The course of a run: what its model asked for, turn after turn, and how it ended."""

import json
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from cli.client import Client

FINAL: Final = frozenset({"completed", "incomplete", "failed", "cancelled", "expired"})

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the model asked for it. ``edited``: the arguments that its output belongs to, if
    somebody has put them in the place of the model's.
    """

    call_id: str
    name: str
    arguments: str
    output: str | None = None
    edited: str | None = None
    is_clients: bool = False

    @property
    def question(self) -> tuple[str, str]:
        """What was asked, the same however the arguments were spelled."""
        try:
            asked = json.loads(self.arguments or "{}")
        except ValueError:
            return self.name, self.arguments
        return self.name, json.dumps(asked, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Round:
    """A turn that asked for tools. ``is_answered``: each call has an output for the model; else the
    run waits, or ended first.
    """

    calls: tuple[Call, ...]
    is_answered: bool

    def questions(self) -> list[tuple[str, str]]:
        """What is asked, sorted: calls of one turn are made at once, so their order is nothing."""
        return sorted(call.question for call in self.calls)

    def is_like(self, other: "Turn") -> bool:
        """Whether both ask the same."""
        return isinstance(other, Round) and self.questions() == other.questions()


@dataclass(frozen=True, slots=True)
class End:
    """How the run ended: with this answer (``None``: it has none), and why if it was not to."""

    status: str
    answer: str | None
    reason: str | None = None

    def is_like(self, other: "Turn") -> bool:
        """Whether both say the same, word for word; why a run failed may be told in other words."""
        return isinstance(other, End) and (self.status, self.answer) == (other.status, other.answer)


Turn = Round | End
Course = tuple[Turn, ...]
"""The turns so far; the last one of a run that has ended is its end."""


async def read_course(client: Client, report: Json) -> Course:
    """The course of a run so far, from its report of ``GET /ops/runs/{id}``."""
    run = report["run"]
    path = f"/v1/threads/{run['thread_id']}"
    steps = {step["id"]: step["status"] for step in report["steps"]}
    ledger = [call async for call in client.pages(f"{path}/runs/{run['id']}/tool_calls")]
    turns: list[Turn] = [
        Round(tuple(_call(call) for call in calls), steps[step_id] == "completed")
        for step_id, calls in groupby(ledger, lambda call: call["step_id"])
    ]
    if run["status"] in FINAL:
        turns.append(End(run["status"], await _answer(client, path, report["steps"]), _reason(run)))
    return tuple(turns)


def as_object(arguments: str) -> Json:
    """The arguments of a call; none if they are no object."""
    try:
        found = json.loads(arguments or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _call(call: Json) -> Call:
    asked = call["asked_arguments"]
    return Call(
        call["id"],
        call["name"],
        call["arguments"] if asked is None else asked,
        call["output"],
        None if asked is None else call["arguments"],
        is_clients=call["executor"] == "client",
    )


async def _answer(client: Client, path: str, steps: list[Json]) -> str | None:
    """What the model said last, if it asked for nothing after it."""
    if not steps or steps[-1]["type"] != "message_creation":
        return None
    message_id = steps[-1]["step_details"]["message_creation"]["message_id"]
    message = await client.get(f"{path}/messages/{message_id}")
    return text_of(message)


def text_of(message: Json) -> str:
    """The words of a message, refusals included."""
    return "\n".join(
        part["refusal"] if part["type"] == "refusal" else part["text"]["value"]
        for part in message["content"]
        if part["type"] in {"text", "refusal"}
    )


def _reason(run: Json) -> str | None:
    told = run["last_error"] or run["incomplete_details"]
    return told["message"] if told else None
