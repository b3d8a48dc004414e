"""Prompts of every size, as the strictest endpoints of both APIs would take them."""

from collections.abc import Iterator, Sequence

import pytest

from orchestrator.commands import RunOut
from orchestrator.engine.prompt import Prompt, prepare, too_much
from orchestrator.llm.chat_request import chat_request
from orchestrator.llm.messages_request import messages_request
from orchestrator.llm.protocol import TurnRequest
from orchestrator.records import Entry, Run
from tests.engine.test_prompts import a_run, spec
from tests.llm.strict import check_chat, check_messages
from tests.unit.test_truncation import a_thread, tool_round, user

QUESTION = "the question"
THREAD = a_thread()


def running(**fields: object) -> Run:
    return a_run(**fields).but(id="run_2")


def check(prompt: Prompt) -> None:
    """Both APIs take it, and system text and question are in it."""
    request = TurnRequest("run_2", spec(), prompt.conversation, 0, 0)
    chat, messages = chat_request(request), messages_request(request, 1_000)
    check_chat(chat["messages"])
    check_messages(messages["messages"])
    assert chat["messages"][0] == {"role": "system", "content": "Be kind."}
    assert {"role": "user", "content": QUESTION} in chat["messages"]
    assert messages["system"][0]["text"] == "Be kind."


def budgets(entries: Sequence[Entry]) -> Iterator[tuple[int, Prompt]]:
    """The prompt for every number of tokens, from one up to where nothing is left out any more."""
    for tokens in range(1, 2_000):
        prompt = prepare(running(), spec(max_prompt_tokens=tokens), entries, [])
        yield tokens, prompt
        if not prompt.cut.dropped:
            return
    pytest.fail("something is left out of every prompt")


def test_a_prompt_of_any_size_is_one_that_providers_take_or_ends_the_run() -> None:
    sizes, ends = set(), set()
    for tokens, prompt in budgets(THREAD):
        check(prompt)
        end = too_much(prompt, running(), spec(max_prompt_tokens=tokens))
        ends.add(type(end))
        sizes.add(len(prompt.cut.kept))
        assert end is None or len(prompt.cut.kept) == 2, "more could have been left out"
    assert ends == {RunOut, type(None)}
    assert sizes == set(range(2, len(prompt.cut.kept) + 1)), "each cut is met"


@pytest.mark.parametrize("count", range(1, 41))
def test_the_last_messages_alone_are_a_prompt_that_providers_take(count: int) -> None:
    strategy = {"type": "last_messages", "last_messages": count}
    check(prepare(running(), spec(truncation_strategy=strategy), THREAD, []))


def test_a_round_that_is_too_large_alone_ends_the_run_and_is_never_sent_in_part() -> None:
    entries = [user(0, QUESTION), *tool_round(1, 0, 60)]
    limited = spec(max_prompt_tokens=256)
    prompt = prepare(running(), limited, entries, [])
    check(prompt)
    end = too_much(prompt, running(), limited)
    assert isinstance(end, RunOut)
    assert "may use 256 prompt tokens" in end.message
    assert prompt.cut.dropped == ()


def test_the_system_the_history_the_question_and_the_runs_own_rounds_follow_each_other() -> None:
    prompt = prepare(running(), spec(), THREAD, [])
    request = TurnRequest("run_2", spec(), prompt.conversation, 0, 0)
    said = chat_request(request)["messages"]
    asked_at = said.index({"role": "user", "content": QUESTION})
    own = [
        (call["id"], answer["tool_call_id"])
        for at, message in enumerate(said)
        for call, answer in zip(message.get("tool_calls", []), said[at + 1 :], strict=False)
        if at > asked_at
    ]
    before = [message["role"] for message in said[:asked_at]]

    assert before == ["system", "user", "assistant", "assistant", "tool", "tool", "assistant"]
    assert own == [(f"call_run_2_{turn}_{n}",) * 2 for turn in range(10) for n in range(3)]
