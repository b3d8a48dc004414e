"""What is left out of prompts, and what is said when nothing more can be."""

from typing import Any

import pytest

from orchestrator.commands import RunOut, TurnFailed
from orchestrator.conversation import Answered
from orchestrator.engine.prompt import (
    Prompt,
    completion_tokens_left,
    prepare,
    to_summarise,
    too_much,
)
from orchestrator.records import AskedCall, CallRound, Entry, Message, Output, Run, RunSpec, Usage
from orchestrator.settings import ModelRoute
from orchestrator.states import RunStatus
from orchestrator.truncation import Rule

FACT = "The key is under the stone."
FILLER = "Nothing of interest was found in this place. " * 5


def a_run(**fields: Any) -> Run:
    return Run(
        id="run_1",
        thread_id="thread_1",
        status=RunStatus.IN_PROGRESS,
        created_ms=0,
        deadline_ms=600_000,
        updated_ms=0,
        generation=1,
        **fields,
    )


def spec(**fields: Any) -> RunSpec:
    return RunSpec(assistant_id="asst_1", model="gpt-4o", instructions="Be kind.", **fields)


def question(text: str = "Where is the key?") -> Message:
    part = {"type": "text", "text": {"value": text, "annotations": []}}
    return Message(
        seq=0, id="msg_1", thread_id="thread_1", created_ms=0, role="user", content=(part,)
    )


def turns(count: int, *, is_pinned: bool = False) -> list[Entry]:
    """The question, and so many rounds; the fourth finds the fact."""
    entries: list[Entry] = [question()]
    for turn in range(count):
        call = AskedCall(
            call_id=f"call_{turn}", name="look", arguments="{}", is_pinned=is_pinned and turn == 3
        )
        text = FACT if turn == 3 else FILLER
        entries.append(CallRound(seq=len(entries), run_id="run_1", turn=turn, calls=(call,)))
        entries.append(Output(seq=len(entries), run_id="run_1", call_id=call.call_id, text=text))
    return entries


def window(tokens: int) -> list[ModelRoute]:
    return [ModelRoute(api="openai", context_tokens=tokens)]


def outputs(prompt: Prompt) -> list[str]:
    return [item.text for item in prompt.conversation.items if isinstance(item, Answered)]


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_fact_of_the_fourth_of_forty_turns_is_lost_unless_it_is_pinned(is_pinned: bool) -> None:
    prompt = prepare(a_run(), spec(), turns(40, is_pinned=is_pinned), window(1_000))
    assert (FACT in outputs(prompt)) is is_pinned
    dropped = {seq: rule for rule, group in prompt.cut.dropped for seq in group.seqs}
    assert dropped.get(8) is (None if is_pinned else Rule.CONTEXT_WINDOW)
    assert prompt.counted_tokens is not None
    assert prompt.counted_tokens <= 750
    assert outputs(prompt)[-1] == FILLER


def test_a_thread_larger_than_the_window_is_cut_although_no_limit_was_set() -> None:
    prompt = prepare(a_run(), spec(), turns(40), window(2_000))
    assert prompt.cut.dropped
    assert too_much(prompt, a_run(), spec()) is None


def test_nothing_is_left_out_and_nothing_counted_where_all_of_it_fits() -> None:
    for routes in (window(1_000_000), [ModelRoute(api="openai")]):
        prompt = prepare(a_run(), spec(), turns(40), routes)
        assert (prompt.cut.dropped, prompt.counted_tokens) == ((), None)


def test_one_message_larger_than_the_window_fails_with_a_reason_that_fits() -> None:
    entries = [question(FILLER * 100)]
    end = too_much(prepare(a_run(), spec(), entries, window(1_000)), a_run(), spec())
    assert isinstance(end, TurnFailed)
    assert end.code == "invalid_prompt"
    assert "the model gpt-4o takes 750" in end.message
    assert "max_prompt_tokens" not in end.message


def test_what_does_not_fit_into_the_runs_prompt_tokens_is_told_with_the_numbers() -> None:
    limited, run = spec(max_prompt_tokens=500), a_run(usage=Usage(prompt_tokens=480))
    end = too_much(prepare(run, limited, turns(5), window(100_000)), run, limited)
    assert isinstance(end, RunOut)
    assert "the run may use 500 prompt tokens and has used 480" in end.message


def test_the_numbers_are_told_as_the_provider_counts() -> None:
    limited, run = spec(max_prompt_tokens=1_500), a_run(usage=Usage(prompt_tokens=1_000))
    entries = [question(FILLER * 20)]
    for ratio in (2.0, 3.0):
        counted = run.but(token_ratio=ratio)
        prompt = prepare(counted, limited, entries, [])
        end = too_much(prompt, counted, limited)
        assert isinstance(end, RunOut)
        told = int(end.message.split("has about ")[1].split()[0])
        assert told == round((prompt.counted_tokens or 0) * ratio)
        assert told > 500, "less would fit"


def test_the_prompt_tokens_that_are_left_decide_and_not_all_of_them() -> None:
    limited = spec(max_prompt_tokens=1_000)
    fresh = prepare(a_run(), limited, turns(40), [])
    later = prepare(a_run(usage=Usage(prompt_tokens=500)), limited, turns(40), [])
    assert len(later.cut.kept) < len(fresh.cut.kept)
    assert {rule for rule, _ in later.cut.dropped} == {Rule.MAX_PROMPT_TOKENS}


def test_a_provider_that_counts_more_is_sent_less() -> None:
    ours = prepare(a_run(), spec(), turns(40), window(1_000))
    theirs = prepare(a_run(token_ratio=2.0), spec(), turns(40), window(1_000))
    assert len(theirs.cut.kept) < len(ours.cut.kept)


def test_the_last_messages_of_the_strategy_are_heeded() -> None:
    strategy = {"type": "last_messages", "last_messages": 1}
    entries = [question("Old."), *(entry.but(seq=entry.seq + 1) for entry in turns(2))]
    prompt = prepare(a_run(), spec(truncation_strategy=strategy), entries, [])
    assert [rule for rule, _ in prompt.cut.dropped] == [Rule.LAST_MESSAGES]


def test_an_answer_gets_what_is_left_and_never_nothing() -> None:
    limited = spec(max_completion_tokens=300)
    assert completion_tokens_left(a_run(), spec()) is None
    assert completion_tokens_left(a_run(), limited) == 300
    assert completion_tokens_left(a_run(usage=Usage(completion_tokens=100)), limited) == 200
    assert completion_tokens_left(a_run(usage=Usage(completion_tokens=400)), limited) == 1


COMPACT = {"type": "compact"}


def test_a_summary_takes_no_more_than_half_of_what_answers_have_left() -> None:
    free = to_summarise(a_run(), spec(truncation_strategy=COMPACT), turns(40), window(2_000))
    limited = spec(truncation_strategy=COMPACT, max_completion_tokens=300)
    spent = a_run(usage=Usage(completion_tokens=100))
    short = to_summarise(spent, limited, turns(40), window(2_000))
    assert free is not None
    assert short is not None
    assert (free.summary_tokens, short.summary_tokens) == (375, 100)


@pytest.mark.parametrize(("left", "is_made"), [(1_499, False), (3_000, True)])
def test_no_summary_is_paid_for_with_the_tokens_of_the_turn_itself(
    left: int, is_made: bool
) -> None:
    limited = spec(truncation_strategy=COMPACT, max_prompt_tokens=5_000)
    run = a_run(usage=Usage(prompt_tokens=5_000 - left))
    assert bool(to_summarise(run, limited, turns(40), window(1_000))) is is_made


def test_only_runs_that_want_summaries_get_them_and_only_where_something_is_too_long() -> None:
    assert to_summarise(a_run(), spec(), turns(40), window(1_000)) is None
    compact = spec(truncation_strategy=COMPACT)
    assert to_summarise(a_run(), compact, turns(40), window(100_000)) is None
    assert to_summarise(a_run(), compact, turns(40), []) is None
    assert to_summarise(a_run(), compact, turns(40), window(1_000)) is not None
