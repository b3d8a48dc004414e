"""What the model of a small run asks for."""

from dataclasses import dataclass
from typing import Final

from orchestrator.commands import (
    ApplyGuards,
    Command,
    CreateRun,
    DeleteThread,
    IfBusy,
    NewMessage,
    OpenCalls,
    OpenMessage,
    ProposedCall,
    RunOut,
    Stop,
    TurnFailed,
    TurnResult,
)
from orchestrator.records import Run, Usage
from tests.unit.play import PUBLISHED, TTL_MS, WATCHDOG_MS, spec
from tests.unit.world import a_record

Opening = ApplyGuards | OpenMessage | OpenCalls
Ending = ApplyGuards | TurnResult | TurnFailed | RunOut

RUN_ID: Final = "run_1"
CREATE: Final = CreateRun(RUN_ID, spec(), TTL_MS)
NEXT_ID: Final = "run_2"
"""Another run of the thread. Its life is not walked: it waits, ends, or has the thread at last."""


@dataclass(frozen=True)
class Scenario:
    """The tools that each round asks for. In each turn the model may also answer, or end badly.

    ``texts`` is what the client may also send while the run is active: another run, a deletion.
    ``is_retried``: tools may ask to be called again, ``is_postponed``: so many of their calls may
    be under way that the next one has to wait. ``streamed_steps``: so many steps may begin
    before the reply to which they belong is there. Turns that are lost leave theirs behind, so the
    number says how often that is walked. ``is_guarded``: guardrails look at what the model is to
    be shown, and may stop it. ``is_compacted``: the first round may be summarised.
    """

    name: str
    rounds: tuple[tuple[str, ...], ...]
    texts: tuple[Command, ...] = ()
    is_retried: bool = False
    is_postponed: bool = False
    streamed_steps: int = 0
    is_guarded: bool = False
    is_compacted: bool = False

    def openings(self, run: Run, generation: int) -> dict[str, Opening]:
        """What can be seen of the run's next turn before its end, by a short name."""
        place = run.next_step
        if self.is_guarded:
            return {"guard": _guarding(run, generation)}
        if place >= self.streamed_steps:
            return {}
        return {
            "speak": OpenMessage(generation, f"msg_{place}", f"step_{place}"),
            "begin calls": OpenCalls(generation, f"step_{place}"),
        }

    def endings(self, run: Run, generation: int) -> dict[str, Ending]:
        """All that can come of the run's next turn, by a short name."""
        record = a_record(run, generation)
        endings: dict[str, Ending] = {
            "answer": _reply(run, generation, (), Stop.DONE),
            "cut": _reply(run, generation, (), Stop.LENGTH),
            "filtered": _reply(run, generation, (), Stop.FILTER),
            "broken": TurnFailed(generation, "server_error", "It broke.", record=record),
            "too much": RunOut(generation, "Nothing fits.", record),
        }
        if run.turns < len(self.rounds):
            asked = self.rounds[run.turns]
            endings["ask"] = _reply(run, generation, asked, Stop.TOOLS)
        if self.is_guarded:
            endings["refuse"] = _guarding(run, generation, "Not here.")
        return endings


def _next(if_busy: IfBusy) -> CreateRun:
    content = ({"type": "text", "text": {"value": "And then?", "annotations": []}},)
    message = NewMessage("msg_next", "user", content)
    return CreateRun(NEXT_ID, spec(), TTL_MS, {}, (message,), if_busy, WATCHDOG_MS)


SCENARIOS: Final = (
    Scenario("a repeatable tool and the client", (("update", "ask_user"),) * 2),
    Scenario("a once-only tool and the client", (("charge", "ask_user"),) * 2, is_retried=True),
    Scenario("two workers", (("update", "charge"),) * 2),
    Scenario("a held tool and the client", (("transfer", "ask_user"),) * 2),
    Scenario("a limited tool", (("update",),) * 2, is_postponed=True),
    Scenario("a tool to be approved and the client", (("refund", "ask_user"),) * 2),
    Scenario("an unknown name", (("missing",), ("missing", "update"))),
    Scenario("a stream", (("update",),) * 2, streamed_steps=2),
    Scenario("guardrails", (("update", "ask_user"),) * 2, is_guarded=True),
    Scenario("a summary", (("update",),) * 2, is_compacted=True),
    Scenario("a run that waits", (("update", "ask_user"),), (_next(IfBusy.ENQUEUE),)),
    Scenario("a run that interrupts", (("update", "ask_user"),), (_next(IfBusy.INTERRUPT),)),
    Scenario("a rollback", (("charge", "ask_user"),), (_next(IfBusy.ROLLBACK),)),
    Scenario("a deletion", (("update",),), (_next(IfBusy.ENQUEUE), DeleteThread())),
)


def _guarding(run: Run, generation: int, refusal: str | None = None) -> ApplyGuards:
    """Each step has an entry or more, so there are as many to be looked at."""
    place = run.next_step
    ids = (f"msg_{place}", f"step_{place}")
    return ApplyGuards(generation, place, (), (), *ids, refusal=refusal)


def _reply(run: Run, generation: int, asked: tuple[str, ...], stop: Stop) -> TurnResult:
    turn = run.turns
    return TurnResult(
        generation=generation,
        text=None if asked else "Here you are.",
        calls=tuple(
            ProposedCall(f"call_{turn}_{place}", name, "{}") for place, name in enumerate(asked)
        ),
        stop=stop,
        usage=Usage(prompt_tokens=10, completion_tokens=1),
        message_id=f"msg_{run.next_step}",
        message_step_id=f"step_{run.next_step}",
        calls_step_id=f"step_{run.next_step}",
        tools=PUBLISHED,
        record=a_record(run, generation),
    )
