"""What a run may use up, looked at before the next turn is paid for."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.commands import ProposedCall
from orchestrator.errors import LastErrorCode
from orchestrator.records import Aggregate, IncompleteReason, Run, RunSpec, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit that is reached, in words. Without a reason for being incomplete, the run fails with
    the code.
    """

    message: str
    incomplete_reason: IncompleteReason | None = None
    code: LastErrorCode = "server_error"


def reached(aggregate: Aggregate, asked: Sequence[ProposedCall]) -> Cap | None:
    """The first limit that forbids these calls, and the turn after them."""
    run, spec = aggregate.run, aggregate.spec
    assert run is not None and spec is not None  # noqa: S101, PT018 - a turn of them has ended
    spent = run.usage or Usage()
    return (
        _tokens(spent, spec)
        or _turns(run, spec)
        or _calls(spec, aggregate.calls, asked)
        or budget(spent, spec)
    )


def budget(spent: Usage, spec: RunSpec) -> Cap | None:
    """The operator's limit of tokens or dollars that is reached."""
    if spec.max_total_tokens and spent.total_tokens >= spec.max_total_tokens:
        return Cap(
            f"A run may use {spec.max_total_tokens} tokens in all and this one has used"
            f" {spent.total_tokens} (RUNSTATE_MAX_TOTAL_TOKENS).",
            code="rate_limit_exceeded",
        )
    if spec.max_cost_usd and spec.price and spec.price.of(spent) >= spec.max_cost_usd:
        return Cap(
            f"A run may cost ${spec.max_cost_usd:g} and this one has cost"
            f" ${spec.price.of(spent):.6f} (RUNSTATE_MAX_COST_USD).",
            code="rate_limit_exceeded",
        )
    return None


def cut_off(run: Run, spec: RunSpec) -> str:
    """What is said of an answer that its provider has ended at a limit."""
    spent = run.usage.completion_tokens if run.usage else "an unknown number"
    if spec.max_completion_tokens:
        return (
            f"The model's answer was cut off: the run may use {spec.max_completion_tokens}"
            f" completion tokens and has used {spent}."
        )
    return (
        f"The model's answer was cut off at the longest that its provider gives in one turn; the"
        f" run, which set no limit of completion tokens, has used {spent}."
    )


def _tokens(spent: Usage, spec: RunSpec) -> Cap | None:
    if spec.max_completion_tokens and spent.completion_tokens >= spec.max_completion_tokens:
        used, limit = spent.completion_tokens, spec.max_completion_tokens
        return Cap(_used_up(used, limit, "completion"), "max_completion_tokens")
    if spec.max_prompt_tokens and spent.prompt_tokens >= spec.max_prompt_tokens:
        used, limit = spent.prompt_tokens, spec.max_prompt_tokens
        return Cap(_used_up(used, limit, "prompt"), "max_prompt_tokens")
    return None


def _turns(run: Run, spec: RunSpec) -> Cap | None:
    if run.turns < spec.max_turns:
        return None
    return Cap(
        f"The run used all of its {spec.max_turns} model turns and the model asked for more"
        " tools. Raise RUNSTATE_MAX_TURNS, or find out why it does not come to an answer."
    )


def _calls(spec: RunSpec, made: Sequence[ToolCall], asked: Sequence[ProposedCall]) -> Cap | None:
    total = len(made) + len(asked)
    if spec.max_tool_calls and total > spec.max_tool_calls:
        return Cap(
            f"The model asked for {total} tool calls in all; a run may make {spec.max_tool_calls}"
            " (RUNSTATE_MAX_TOOL_CALLS)."
        )
    known = Counter((call.name, call.arguments) for call in made)
    known.update((call.name, call.arguments) for call in asked)
    (name, _), times = known.most_common(1)[0]
    if spec.max_repeated_calls and times > spec.max_repeated_calls:
        return Cap(
            f"The model asked {times} times for {name} with the same arguments; a run may do so"
            f" {spec.max_repeated_calls} times (RUNSTATE_MAX_REPEATED_CALLS)."
        )
    return None


def _used_up(spent: int, limit: int, kind: str) -> str:
    return (
        f"The run may use {limit} {kind} tokens and has used {spent} when the model asked for more"
        " tools."
    )
