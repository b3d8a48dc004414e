"""What of a conversation a model is shown when all of it would be too much. Pure.

Groups go or stay as a whole, so that no call is ever without its output and no output without its
call. These always stay: the system text, the user's newest message, the newest group (what the
model has just asked for) and what is pinned. ``last_messages`` cuts what was there before the run;
a limit of tokens takes from the middle, oldest first, then summaries, and the first group of all at
the very last.

What must go may be summarised before: ``older`` says which part of it is to be read at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.conversation import Group, Heard, Recalled


class Rule(StrEnum):
    """Why a group was left out."""

    LAST_MESSAGES = "last_messages"
    """It is older than as many messages as the run asked for."""
    MAX_PROMPT_TOKENS = "max_prompt_tokens"
    """The run has not enough prompt tokens left."""
    CONTEXT_WINDOW = "context_window"
    """The model takes no more."""
    COMPACT = "compact"
    """A summary stands for it."""


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
    spares_summaries: bool = True,
) -> Cut:
    """The groups that are shown to this run. ``fixed_tokens`` weighs what is always sent.

    What must stay may still be more than the limit: then nothing can be asked. Summaries say most
    in the fewest tokens, so they go after all else, unless they are to be summarised again.
    """
    held = _held(groups)
    before = _before(groups, run_id, last_messages)
    dropped = {at: Rule.LAST_MESSAGES for at in range(before) if at not in held}
    weights = [weigh(group) for group in groups]
    tokens = fixed_tokens + sum(weights) - sum(weights[at] for at in dropped)
    for at in _in_order(groups, spares_summaries=spares_summaries):
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


def older(
    groups: Sequence[Group],
    *,
    limit: Limit,
    room_tokens: int,
    weigh: Callable[[Group], int],
    fixed_tokens: int = 0,
) -> tuple[Group, ...]:
    """What one summary is to stand for: the oldest of what must go if half of the limit is to be
    free again, as much as whoever writes it can read. A group that is too large alone is passed
    over. Nothing if that would gain nothing.
    """
    half = Limit(limit.tokens // 2, limit.rule)
    gone = cut(
        groups,
        run_id="",
        last_messages=None,
        limit=half,
        weigh=weigh,
        fixed_tokens=fixed_tokens,
        spares_summaries=False,
    )
    taken: list[Group] = []
    taken_tokens = 0
    for _, group in gone.dropped:
        if (tokens := weigh(group)) > room_tokens:
            continue
        if (taken_tokens := taken_tokens + tokens) > room_tokens:
            break
        taken.append(group)
    return () if all(_is_summary(group) for group in taken) else tuple(taken)


def _is_summary(group: Group) -> bool:
    return isinstance(group.items[0], Recalled)


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
    return messages[-last_messages] if len(messages) >= last_messages else 0


def _is_message(group: Group, run_id: str) -> bool:
    first = group.items[0]
    if group.run_id == run_id or _is_summary(group):
        return False
    return isinstance(first, Heard) or bool(first.text)


def _in_order(groups: Sequence[Group], *, spares_summaries: bool) -> Iterator[int]:
    """From the middle on, and the first one at the end."""
    later = [at for at in range(1, len(groups)) if spares_summaries and _is_summary(groups[at])]
    yield from (at for at in range(1, len(groups)) if at not in later)
    yield from later
    yield from range(min(len(groups), 1))
