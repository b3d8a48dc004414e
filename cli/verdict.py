"""Whether one play of a case was as expected."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jsonschema_rs import ValidationError, validator_for

from cli.course import Call, as_object
from cli.suite import Answer, Expect, ExpectedCall
from cli.terminal import one_line


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one play, over all its runs. ``reason``: why the last one did not complete;
    ``tokens`` and ``cost_usd`` are ``None`` where somebody did not say.
    """

    thread_id: str
    run_id: str
    model: str
    status: str
    reason: str | None
    answer: str
    calls: tuple[Call, ...]
    turns: int
    tokens: int | None
    cost_usd: float | None
    seconds: float


def complaint(expect: Expect, played: Played) -> str | None:
    """The first thing that was not as expected."""
    return next(_complaints(expect, played), None)


def _complaints(expect: Expect, played: Played) -> Iterator[str]:
    if played.status != expect.status:
        reason = f": {played.reason}" if played.reason else ""
        yield f"the run is {played.status}, not {expect.status}{reason}"
    names = [call.name for call in played.calls]
    if used := [name for name in expect.forbidden_tools if name in names]:
        yield f"called {used[0]}, which is forbidden"
    yield from _of_calls(expect, played.calls)
    yield from _of_answer(expect.answer, played.answer)
    yield from _of_costs(expect, played)


def _of_calls(expect: Expect, calls: tuple[Call, ...]) -> Iterator[str]:
    made = "; it called " + (", ".join(map(_spelled, calls)) or "nothing")
    match expect.order:
        case "any":
            left = list(calls)
            for wanted in sorted(expect.tools, key=lambda tool: -len(tool.arguments)):
                fitting = next((call for call in left if _fits(wanted, call)), None)
                if fitting is None:
                    yield f"did not call {_wanted(wanted)}{made}"
                else:
                    left.remove(fitting)
        case "listed":
            rest = iter(calls)
            for wanted in expect.tools:
                if not any(_fits(wanted, call) for call in rest):
                    yield f"did not call {_wanted(wanted)} in this order{made}"
        case "exact":
            pairs = zip(expect.tools, calls, strict=False)
            if len(calls) != len(expect.tools) or not all(_fits(w, c) for w, c in pairs):
                wanted_calls = ", ".join(map(_wanted, expect.tools)) or "nothing"
                yield f"did not call exactly {wanted_calls}{made}"


def _of_answer(checks: Answer, answer: str) -> Iterator[str]:
    shown = f": {one_line(answer, 200)}"
    for text in checks.contains:
        if text not in answer:
            yield f"the answer does not contain {text!r}{shown}"
    for text in checks.not_contains:
        if text in answer:
            yield f"the answer contains {text!r}{shown}"
    if checks.matches is not None and not re.search(checks.matches, answer):
        yield f"the answer does not match {checks.matches!r}{shown}"
    if isinstance(checks.equals, str):
        if answer.strip() != checks.equals.strip():
            yield f"the answer is not {checks.equals!r}{shown}"
    elif checks.equals is not None:
        yield from _of_json(answer, lambda value: _unequal(value, checks.equals))
    if checks.json_schema is not None:
        validator = validator_for(checks.json_schema, offline=True)
        yield from _of_json(answer, lambda value: _unfitting(validator, value))


def _of_costs(expect: Expect, played: Played) -> Iterator[str]:
    if expect.max_turns is not None and played.turns > expect.max_turns:
        yield f"took {played.turns} turns, more than {expect.max_turns}"
    if expect.max_tokens is not None and played.tokens is None:
        yield "its tokens are not known"
    elif expect.max_tokens is not None and (played.tokens or 0) > expect.max_tokens:
        yield f"used {played.tokens} tokens, more than {expect.max_tokens}"
    if expect.max_seconds is not None and played.seconds > expect.max_seconds:
        yield f"took {played.seconds:.1f} s, more than {expect.max_seconds:g} s"


def _of_json(answer: str, complain: Callable[[Any], str | None]) -> Iterator[str]:
    try:
        value = json.loads(answer)
    except ValueError:
        yield f"the answer is not JSON: {one_line(answer, 200)}"
    else:
        if said := complain(value):
            yield said


def _unequal(value: Any, wanted: Any) -> str | None:
    return None if value == wanted else f"the answer is not {json.dumps(wanted)}: {value}"


def _unfitting(validator: Any, value: Any) -> str | None:
    try:
        validator.validate(value)
    except ValidationError as error:
        place = ".".join(map(str, error.instance_path))
        return f"the answer does not fit the schema: {place or 'the whole'}: {error.message}"
    return None


def _fits(wanted: ExpectedCall, call: Call) -> bool:
    return (
        wanted.name == call.name and wanted.arguments.items() <= as_object(call.arguments).items()
    )


def _wanted(call: ExpectedCall) -> str:
    return f"{call.name}({json.dumps(call.arguments)})" if call.arguments else call.name


def _spelled(call: Call) -> str:
    return f"{call.name}({one_line(call.arguments, 80)})"
