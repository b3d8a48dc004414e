"""What of a conversation a model is shown when all of it would be too much. Pure.

Groups go or stay as a whole, so that no call is ever without its output and no output without its
call. These always stay: the system text, the user's newest message, the newest group (what the
model has just asked for) and what is pinned. ``last_messages`` cuts what was there before the run;
a limit of tokens takes from the middle, oldest first, and the first group of all at the very last.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.conversation import Group, Heard


class Rule(StrEnum):
    """Why a group was left out."""

    LAST_MESSAGES = "last_messages"
    """It is older than as many messages as the run asked for."""
    MAX_PROMPT_TOKENS = "max_prompt_tokens"
    """The run has not enough prompt tokens left."""
    CONTEXT_WINDOW = "context_window"
    """The model takes no more."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How many tokens a prompt may have, and who says so."""

    tokens: int
    rule: Rule


@dataclass(frozen=True, slots=True)
class Cut:
    """What stays, and what was left out by which rule. ``tokens``: what the prompt then weighs."""

    kept: tuple[Group, ...]
    dropped: tuple[tuple[Rule, Group], ...]
    tokens: int


def cut(  # noqa: PLR0913 - by name
    groups: Sequence[Group],
    *,
    run_id: str,
    last_messages: int | None,
    limit: Limit | None,
    weigh: Callable[[Group], int],
    fixed_tokens: int = 0,
) -> Cut:
    """The groups that are shown to this run. ``fixed_tokens`` weighs what is always sent.

    What must stay may still be more than the limit: then nothing can be asked.
    """
    held = _held(groups)
    before = _before(groups, run_id, last_messages)
    dropped = {at: Rule.LAST_MESSAGES for at in range(before) if at not in held}
    weights = [weigh(group) for group in groups]
    tokens = fixed_tokens + sum(weights) - sum(weights[at] for at in dropped)
    for at in _from_the_middle(len(groups)):
        if limit is None or tokens <= limit.tokens:
            break
        if at not in held and at not in dropped:
            dropped[at] = limit.rule
            tokens -= weights[at]
    return Cut(
        kept=tuple(group for at, group in enumerate(groups) if at not in dropped),
        dropped=tuple((dropped[at], groups[at]) for at in sorted(dropped)),
        tokens=tokens,
    )


def _held(groups: Sequence[Group]) -> frozenset[int]:
    newest_heard = [at for at, group in enumerate(groups) if isinstance(group.items[0], Heard)][-1:]
    pinned = (at for at, group in enumerate(groups) if group.is_pinned)
    return frozenset({*newest_heard, *pinned, len(groups) - 1})


def _before(groups: Sequence[Group], run_id: str, last_messages: int | None) -> int:
    """Where the last messages begin. Turns of the run itself are not counted: they are not history.

    A turn that only asked for tools is no message, and goes with the messages around it.
    """
    if last_messages is None:
        return 0
    messages = [at for at, group in enumerate(groups) if _is_message(group, run_id)]
    return messages[-last_messages] if len(messages) > last_messages else 0


def _is_message(group: Group, run_id: str) -> bool:
    first = group.items[0]
    return group.run_id != run_id and (isinstance(first, Heard) or bool(first.text))


def _from_the_middle(count: int) -> Iterator[int]:
    yield from range(1, count)
    yield from range(min(count, 1))
