"""What is left out of a conversation, at every size of the budget."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from orchestrator.conversation import Answered, Group, Heard, Said, build, grouped
from orchestrator.records import AskedCall, CallRound, Entry, Message, Output
from orchestrator.truncation import Cut, Limit, Rule, cut

FIXED = 5


def user(seq: int, text: str = "hello", **fields: object) -> Message:
    return spoken(seq, "user", text).but(**fields)


def spoken(seq: int, role: str, text: str, run_id: str | None = None, turn: int = 0) -> Message:
    part = {"type": "text", "text": {"value": text, "annotations": []}}
    is_user = role == "user"
    return Message(
        seq=seq,
        id=f"msg_{seq}",
        thread_id="thread_1",
        created_ms=0,
        role="user" if is_user else "assistant",
        content=(part,),
        run_id=run_id,
        turn=None if is_user else turn,
    )


def tool_round(seq: int, turn: int, count: int, run_id: str = "run_2") -> list[Entry]:
    """A round of so many parallel calls; their outputs arrive in reverse."""
    ids = [f"call_{run_id}_{turn}_{number}" for number in range(count)]
    asked = tuple(AskedCall(call_id=call_id, name="look", arguments="{}") for call_id in ids)
    outputs = [
        Output(seq=seq + 1 + at, run_id=run_id, call_id=call_id, text="found it")
        for at, call_id in enumerate(reversed(ids))
    ]
    return [CallRound(seq=seq, run_id=run_id, turn=turn, calls=asked), *outputs]


def a_thread() -> list[Entry]:
    """History with rounds of its own, then the question, then ten rounds of three calls."""
    entries: list[Entry] = [user(0, "first"), spoken(1, "assistant", "hi", "run_1")]
    entries += tool_round(2, 1, 2, "run_1")
    entries += [spoken(5, "assistant", "done", "run_1", 2), user(6, "the question")]
    for turn in range(10):
        if turn % 2:
            entries.append(spoken(len(entries), "assistant", "let me see", "run_2", turn))
        entries += tool_round(len(entries), turn, 3)
    return entries


def weigh(group: Group) -> int:
    return 3 * len(group.seqs)


def cut_to(
    entries: Sequence[Entry], tokens: int | None = None, last_messages: int | None = None
) -> Cut:
    return cut(
        grouped(entries),
        run_id="run_2",
        last_messages=last_messages,
        limit=None if tokens is None else Limit(tokens, Rule.MAX_PROMPT_TOKENS),
        weigh=weigh,
        fixed_tokens=FIXED,
    )


def check_that_providers_take_it(shown: Cut) -> None:
    """Every call is answered at once, in order; every output has its call; the user has spoken."""
    waiting: list[str] = []
    newest_heard = None
    for item in build("", shown.kept).items:
        if isinstance(item, Answered):
            assert item.call_id == waiting.pop(0)
        else:
            assert waiting == []
        if isinstance(item, Said):
            waiting = [call.call_id for call in item.calls]
        if isinstance(item, Heard):
            newest_heard = item.text
    assert waiting == []
    assert newest_heard == "the question"


def seqs(shown: Cut) -> set[int]:
    return {seq for group in shown.kept for seq in group.seqs}


def test_whole_groups_go_at_every_size_of_the_budget() -> None:
    entries = a_thread()
    whole = cut_to(entries)
    assert (len(whole.kept), whole.dropped) == (len(grouped(entries)), ())
    assert whole.tokens == FIXED + sum(map(weigh, grouped(entries)))
    shown = [cut_to(entries, tokens) for tokens in range(whole.tokens + 2)]
    for tokens, each in enumerate(shown):
        check_that_providers_take_it(each)
        groups = grouped(entries)
        assert each.kept[-1] == groups[-1], "what the model has just asked for was left out"
        assert sorted(
            each.kept + tuple(g for _, g in each.dropped), key=lambda g: g.seqs
        ) == sorted(groups, key=lambda g: g.seqs)
        assert each.tokens == FIXED + sum(map(weigh, each.kept))
        assert each.tokens <= tokens or len(each.kept) == 2
    for less, more in pairwise(shown):
        assert seqs(less) <= seqs(more)


def test_the_middle_goes_first_and_the_first_message_last() -> None:
    entries = a_thread()
    whole = cut_to(entries)
    by_budget = [cut_to(entries, tokens) for tokens in range(whole.tokens, -1, -1)]
    gone: list[Group] = []
    for each in by_budget:
        gone += [group for _, group in each.dropped if group not in gone]
    assert gone[0] == grouped(entries)[1]
    assert gone[-1] == grouped(entries)[0]
    assert {rule for each in by_budget for rule, _ in each.dropped} == {Rule.MAX_PROMPT_TOKENS}


@pytest.mark.parametrize("count", range(1, 41))
def test_the_last_messages_cut_history_and_never_the_runs_own_turns(count: int) -> None:
    entries = a_thread()
    shown = cut_to(entries, last_messages=count)
    check_that_providers_take_it(shown)
    own = {seq for group in grouped(entries) for seq in group.seqs if group.run_id == "run_2"}
    assert own <= seqs(shown)
    history = [0, 1, 5, 6]
    assert [seq for seq in history if seq in seqs(shown)] == history[-count:]
    assert {rule for rule, _ in shown.dropped} <= {Rule.LAST_MESSAGES}


def test_both_rules_together_say_which_one_left_what_out() -> None:
    entries = a_thread()
    shown = cut_to(entries, tokens=60, last_messages=2)
    check_that_providers_take_it(shown)
    rules = {group.seqs: rule for rule, group in shown.dropped}
    assert rules[0,] is rules[2, 4, 3] is Rule.LAST_MESSAGES
    assert Rule.MAX_PROMPT_TOKENS in rules.values()
    assert shown.tokens <= 60


def test_what_is_pinned_stays_even_if_it_is_too_much() -> None:
    entries = [entry.but(metadata={"runstate_pin": "true"}) for entry in a_thread()[:1]]
    entries += a_thread()[1:]
    shown = cut_to(entries, tokens=0, last_messages=1)
    assert {0, 6} <= seqs(shown)
    assert shown.tokens > 0
    assert len(shown.kept) == 3


def test_one_group_larger_than_the_budget_stays_whole() -> None:
    entries = [user(0, "the question"), *tool_round(1, 0, 50)]
    shown = cut_to(entries, tokens=20)
    check_that_providers_take_it(shown)
    assert shown.tokens > 20


def test_the_users_message_stays_before_the_rounds_that_it_led_to() -> None:
    entries = [user(0, "the question"), *tool_round(1, 0, 1), *tool_round(3, 1, 1)]
    items = build("Be kind.", cut_to(entries).kept).items
    assert [type(item) for item in items] == [Heard, Said, Answered, Said, Answered]


@pytest.mark.parametrize("entries", [[], [spoken(0, "assistant", "hi", "run_1")]])
def test_a_thread_without_a_question_is_cut_as_well(entries: list[Entry]) -> None:
    assert len(cut_to(entries, tokens=0, last_messages=1).kept) == len(entries)
