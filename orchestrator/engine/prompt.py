"""What a model is shown in a turn: as much of the transcript as run and model allow. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from orchestrator import summaries
from orchestrator.commands import RunOut, TurnFailed
from orchestrator.conversation import Conversation, Group, build, grouped
from orchestrator.llm import tokens
from orchestrator.records import Entry, Run, RunSpec, Usage
from orchestrator.settings import ModelRoute
from orchestrator.truncation import Cut, Limit, Rule, cut, older

ANSWER_SHARE: Final = 4
"""At most a quarter of the window is kept free for an answer whose length nobody has limited."""

SUMMARY_SHARE: Final = 4
"""A summary may take up to a quarter of the window, thoughts of the model included."""

MAX_FAILED_SUMMARIES: Final = 3
"""Of one run. Each costs as much as a turn, and the next one will hardly succeed."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """``counted_tokens`` is what it weighs, if that mattered."""

    conversation: Conversation
    cut: Cut
    limit: Limit | None
    counted_tokens: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """What is to be summarised, in how many tokens at most."""

    groups: tuple[Group, ...]
    summary_tokens: int


def prepare(
    run: Run, spec: RunSpec, entries: Iterable[Entry], routes: Sequence[ModelRoute]
) -> Prompt:
    """The prompt of the run's next turn. Tokens are counted only where they may be too many."""
    groups = grouped(entries)
    limit = _limit(run, spec, routes)
    is_small = limit is None or _size_bytes(groups, spec) <= limit.tokens
    shown = cut(
        groups,
        run_id=run.id,
        last_messages=spec.truncation_strategy.get("last_messages"),
        limit=None if is_small else limit,
        weigh=(lambda _: 0) if is_small else lambda group: _weight(spec, group),
        fixed_tokens=0 if is_small else _fixed(spec),
    )
    conversation = build(spec.instructions, shown.kept, run.id)
    return Prompt(conversation, shown, limit, None if is_small else shown.tokens)


def to_summarise(
    run: Run, spec: RunSpec, entries: Iterable[Entry], routes: Sequence[ModelRoute]
) -> Part | None:
    """What a summary should stand for before this prompt is sent, if the run wants summaries, and
    has the tokens for them beside those of the turn.
    """
    limit = _limit(run, spec, routes)
    is_asked = spec.truncation_strategy.get("type") == "compact"
    if limit is None or not is_asked or not _may_read_twice(run, spec, limit):
        return None
    if run.failed_summaries >= MAX_FAILED_SUMMARIES:
        return None
    groups = grouped(entries)
    if _size_bytes(groups, spec) <= limit.tokens:
        return None
    fixed_tokens = _fixed(spec)
    if fixed_tokens + sum(_weight(spec, group) for group in groups) <= limit.tokens:
        return None
    half_of_answer = (completion_tokens_left(run, spec) or limit.tokens) // 2
    summary_tokens = min(limit.tokens // SUMMARY_SHARE, half_of_answer)
    instructions = tokens.count(spec.model, summaries.INSTRUCTIONS).tokens
    part = older(
        groups,
        limit=limit,
        room_tokens=limit.tokens - summary_tokens - instructions,
        weigh=lambda group: _weight(spec, group),
        fixed_tokens=fixed_tokens,
    )
    return Part(part, summary_tokens) if part else None


def too_much(prompt: Prompt, run: Run, spec: RunSpec) -> RunOut | TurnFailed | None:
    """How the turn ends if even the smallest prompt is over its limit; told as the provider counts,
    since what was used is counted so as well.
    """
    limit, needed = prompt.limit, prompt.counted_tokens
    if limit is None or needed is None or needed <= limit.tokens:
        return None
    needed, takes = (ceil(count * run.token_ratio) for count in (needed, limit.tokens))
    begin = (
        f"With all left out that may be, the next prompt has about {needed} tokens (what is pinned,"
        " the newest message of the user and the newest round of calls always stay)"
    )
    if limit.rule is Rule.MAX_PROMPT_TOKENS:
        spent = (run.usage or Usage()).prompt_tokens
        return RunOut(
            run.generation,
            f"{begin}: the run may use {spec.max_prompt_tokens} prompt tokens and has used"
            f" {spent}.",
        )
    return TurnFailed(
        run.generation,
        "invalid_prompt",
        f"{begin}; the model {spec.model} takes {takes} beside its answer.",
    )


def completion_tokens_left(run: Run, spec: RunSpec) -> int | None:
    """How long the answer may be, if the run limits it."""
    if spec.max_completion_tokens is None:
        return None
    spent = (run.usage or Usage()).completion_tokens
    return max(spec.max_completion_tokens - spent, 1)


def _limit(run: Run, spec: RunSpec, routes: Sequence[ModelRoute]) -> Limit | None:
    """The tightest one, by our own count, which the provider's last one corrects."""
    limits = [
        Limit(_beside_answer(run, spec, route, route.context_tokens), Rule.CONTEXT_WINDOW)
        for route in routes
        if route.context_tokens is not None
    ]
    if spec.max_prompt_tokens is not None:
        spent = (run.usage or Usage()).prompt_tokens
        limits.append(Limit(spec.max_prompt_tokens - spent, Rule.MAX_PROMPT_TOKENS))
    if not limits:
        return None
    tightest = min(limits, key=lambda limit: limit.tokens)
    return Limit(int(tightest.tokens / run.token_ratio), tightest.rule)


def _may_read_twice(run: Run, spec: RunSpec, limit: Limit) -> bool:
    if spec.max_prompt_tokens is None:
        return True
    left = spec.max_prompt_tokens - (run.usage or Usage()).prompt_tokens
    return left >= 2 * limit.tokens * run.token_ratio


def _beside_answer(run: Run, spec: RunSpec, route: ModelRoute, window_tokens: int) -> int:
    answer = completion_tokens_left(run, spec) or route.max_output_tokens
    return window_tokens - min(answer, window_tokens // ANSWER_SHARE)


def _weight(spec: RunSpec, group: Group) -> int:
    return tokens.weight(spec.model, group.items).tokens


def _fixed(spec: RunSpec) -> int:
    return tokens.count(spec.model, spec.instructions).tokens + tokens.weight_of_tools(
        spec.model, spec.tools
    )


def _size_bytes(groups: Sequence[Group], spec: RunSpec) -> int:
    """At least as much as there are tokens: none is shorter than a byte."""
    size = len(spec.instructions.encode()) + sum(len(str(tool).encode()) for tool in spec.tools)
    return size + sum(tokens.size_bytes(group.items) for group in groups)
