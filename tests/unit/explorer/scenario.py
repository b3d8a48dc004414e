"""What the model of a small run asks for."""

from dataclasses import dataclass
from typing import Final

from orchestrator.commands import (
    CreateRun,
    ProposedCall,
    Stop,
    TurnFailed,
    TurnResult,
)
from orchestrator.records import Run, Usage
from tests.unit.play import PUBLISHED, TTL_MS, spec

RUN_ID: Final = "run_1"
CREATE: Final = CreateRun(RUN_ID, spec(), TTL_MS)


@dataclass(frozen=True)
class Scenario:
    """The tools that each round asks for. In each turn the model may also answer, or end badly."""

    name: str
    rounds: tuple[tuple[str, ...], ...]

    def endings(self, run: Run, generation: int) -> dict[str, TurnResult | TurnFailed]:
        """All that can come of the run's next turn, by a short name."""
        endings: dict[str, TurnResult | TurnFailed] = {
            "answer": _reply(run, generation, (), Stop.DONE),
            "cut": _reply(run, generation, (), Stop.LENGTH),
            "filtered": _reply(run, generation, (), Stop.FILTER),
            "broken": TurnFailed(generation, "server_error", "It broke."),
        }
        if run.turns < len(self.rounds):
            asked = self.rounds[run.turns]
            endings["ask"] = _reply(run, generation, asked, Stop.TOOLS)
        return endings


SCENARIOS: Final = (
    Scenario("a repeatable tool and the client", (("update", "ask_user"),) * 2),
    Scenario("a once-only tool and the client", (("charge", "ask_user"),) * 2),
    Scenario("two workers", (("update", "charge"),) * 2),
    Scenario("a held tool and the client", (("transfer", "ask_user"),) * 2),
    Scenario("an unknown name", (("missing",), ("missing", "update"))),
)


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
        message_id=f"msg_{turn}",
        message_step_id=f"step_{turn}",
        calls_step_id=f"step_{turn}",
        tools=PUBLISHED,
    )
