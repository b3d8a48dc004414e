"""A recorded course beside a replayed one: where they part, in lines and as JSON."""

from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, Literal

from cli.course import Course, End, Round, Turn
from cli.terminal import one_line

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first turn, counted from 0, that went another way."""

    turn: int
    recorded: Turn
    replayed: Turn

    @property
    def kind(self) -> Literal["calls", "answer", "end"]:
        """What differs: the calls, the words of the answer, or whether and how it ended."""
        match self.recorded, self.replayed:
            case Round(), Round():
                return "calls"
            case End(status=old), End(status=new) if old == new:
                return "answer"
        return "end"


def comparable(recorded: Course) -> Course:
    """What a replay can follow: no further than to calls that nobody has answered."""
    cut = (place for place, turn in enumerate(recorded, 1) if is_cut(turn))
    return recorded[: next(cut, len(recorded))]


def is_cut(turn: Turn) -> bool:
    """Whether the run ended before these calls were answered."""
    return isinstance(turn, Round) and not turn.is_answered


def first_difference(recorded: Course, replayed: Course) -> Difference | None:
    """Where the replay has left the record, as far as both go."""
    pairs = enumerate(zip(comparable(recorded), replayed, strict=False))
    return next((Difference(n, old, new) for n, (old, new) in pairs if not old.is_like(new)), None)


def as_lines(recorded: Course, found: Difference | None) -> list[str]:
    """The turns that were the same, then the one that was not."""
    same = recorded[: found.turn] if found else comparable(recorded)
    told = [f"turn {number}  {_line(turn)}" for number, turn in enumerate(same)]
    if found:
        old, new = _lines(found.recorded), _lines(found.replayed)
        changed = list(unified_diff(old, new, lineterm="", n=len(old)))[3:]
        return [*told, f"turn {found.turn}  differs ({found.kind}):", *(f"  {x}" for x in changed)]
    if len(same) < len(recorded):
        told.append(f"The record ends here: {_line(recorded[-1])}")
    return [*told, "No difference."]


def as_json(recorded: Course, found: Difference | None) -> Json:
    """``{"same_turns": 2, "difference": {"turn": 2, "kind": "answer", …}}``."""
    difference = found and {
        "turn": found.turn,
        "kind": found.kind,
        "recorded": _json(found.recorded),
        "replayed": _json(found.replayed),
    }
    same_turns = found.turn if found else len(comparable(recorded))
    return {"same_turns": same_turns, "difference": difference}


def _line(turn: Turn) -> str:
    first, *more = _lines(turn)
    is_end = isinstance(turn, End)
    return one_line(f"{first}: {' '.join(more)}" if is_end and more else ", ".join([first, *more]))


def _lines(turn: Turn) -> list[str]:
    """Its calls in the order of their names, or its last words."""
    if isinstance(turn, Round):
        return [f"{name}({arguments})" for name, arguments in turn.questions()]
    words = turn.reason if turn.answer is None else turn.answer
    return [turn.status, *(words or "").splitlines()]


def _json(turn: Turn) -> Json:
    if isinstance(turn, Round):
        return {"calls": [{"name": x.name, "arguments": x.arguments} for x in turn.calls]}
    return {"status": turn.status, "answer": turn.answer, "reason": turn.reason}
