"""Guardrails around real turns: what models are shown, what is stored, and what fails closed."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from orchestrator import Rewrite, Stop
from orchestrator.commands import AddMessages, Cancel, CreateRun, IfBusy, SubmitOutputs
from orchestrator.commands import Stop as StopReason
from orchestrator.conversation import Heard, Said, build, grouped
from orchestrator.decisions import EventType
from orchestrator.engine.guarding import WITHHELD, review
from orchestrator.engine.guards import Guards
from orchestrator.engine.speech import Speech
from orchestrator.guardrails import Guardrail
from orchestrator.ids import mint
from orchestrator.llm.protocol import Reply, ReplyCall
from orchestrator.llm.sent import request_body
from orchestrator.records import CallState, Guarded, GuardPoint, Message, Run, RunSpec
from orchestrator.shell import change_run, change_thread
from orchestrator.store import PageQuery, RunRef, RunView, Store
from tests.engine.rig import EngineRoom, new_message, run_command, run_reaches, start_run, texts
from tests.engine.test_faults import FailingStore

ASKS = {
    "turns": [
        {"text": "Let me look.", "tool_calls": [{"name": "a", "arguments": {"who": "Ann"}}]},
        {"text": "It says {{ outputs.a }}."},
    ]
}


def guards(on: GuardPoint, function: Callable[..., Any], **options: Any) -> Guards:
    return Guards([Guardrail(function.__name__, on, function, **options)])


def no_ann(text: str, tool: str = "") -> Rewrite:
    """The name without its owner."""
    return Rewrite(text.replace("Ann", "(a name)"))


def no_bob(text: str, tool: str = "") -> Stop | None:
    """Bob is not talked about."""
    return Stop("Not about Bob.") if "Bob" in text else None


def echo(text: str) -> CreateRun:
    """A run whose model says what it was shown last."""
    spec = RunSpec(assistant_id="asst_1", model="scripted/echo")
    return CreateRun(mint("run"), spec, 60_000, additional_messages=(new_message(text),))


async def refusals(store: Store, thread_id: str) -> list[str]:
    page = await store.list_messages(thread_id, PageQuery(limit=100, order="asc"))
    parts = [part for message in page.items for part in message.content]
    return [part["refusal"] for part in parts if part["type"] == "refusal"]


async def told(store: Store, ref: RunRef) -> list[str | None]:
    """What the log says of guardrails."""
    events = [event for _, event in await store.read_events(ref)]
    return [event.detail for event in events if event.type is EventType.GUARD_FIRED]


async def answer_call(store: Store, view: RunView, output: str) -> None:
    (call,) = (call for call in view.calls if call.state is CallState.REQUIRED)
    ref = RunRef(view.run.thread_id, view.run.id)
    await change_run(store, ref, SubmitOutputs(((call.id, output),)))


# -- what comes in ---------------------------------------------------------------------------------


async def test_models_never_see_what_was_rewritten_in_this_run_or_a_later_one(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1", guards=guards(GuardPoint.INPUT, no_ann))
    ref = await start_run(store, echo("I am Ann."))
    await run_reaches(store, ref, "completed")
    await engines.stop("e1")
    engines.start("e2")
    script = {"turns": [{"text": "Hello."}]}
    later = await start_run(store, run_command(script), ref.thread_id)
    await run_reaches(store, later, "completed")
    assert await texts(store, ref.thread_id) == ["I am (a name).", "Hello."]
    assert (await texts(store, ref.thread_id, "user"))[0] == "I am Ann."
    groups = build("", grouped(await store.read_entries(ref.thread_id))).items
    assert groups[0] == Heard((new_message("I am (a name).").content[0],))
    asked = (await store.read_entries(ref.thread_id))[0]
    assert isinstance(asked, Message)
    assert await told(store, ref) == [f"no_ann (input) rewrote {asked.id}"]


async def test_a_stopped_message_is_refused_and_no_model_is_asked(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1", guards=guards(GuardPoint.INPUT, no_bob))
    ref = await start_run(store, echo("Where is Bob?"))
    view = await run_reaches(store, ref, "completed")
    assert await refusals(store, ref.thread_id) == ["Not about Bob."]
    assert (view.run.turns, view.run.usage) == (0, None)
    later = await start_run(store, echo("And Carol?"), ref.thread_id)
    await run_reaches(store, later, "completed")
    assert await refusals(store, ref.thread_id) == ["Not about Bob."]
    entries = await store.read_entries(ref.thread_id)
    groups = build("", grouped(entries)).items
    assert [item.text for item in groups] == [
        WITHHELD,
        "Not about Bob.",
        "And Carol?",
        "And Carol?",
    ]


async def test_an_old_message_that_a_new_rule_stops_is_withheld_and_the_run_goes_on(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    old = await start_run(store, echo("Where is Bob?"))
    await run_reaches(store, old, "completed")
    await engines.stop("e1")
    engines.start("e2", guards=guards(GuardPoint.INPUT, no_bob))
    ref = await start_run(store, echo("And Carol?"), old.thread_id)
    await run_reaches(store, ref, "completed")
    assert (await texts(store, ref.thread_id))[-1] == "And Carol?"
    groups = build("", grouped(await store.read_entries(ref.thread_id))).items
    assert groups[0].text == WITHHELD


async def test_a_rule_for_some_models_leaves_the_words_of_others_alone(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1", guards=guards(GuardPoint.OUTPUT, no_ann, models=("scripted/e*",)))
    ref = await start_run(store, echo("I am Ann."))
    await run_reaches(store, ref, "completed")
    script = {"turns": [{"text": "You are Ann."}]}
    other = await start_run(store, run_command(script), ref.thread_id)
    await run_reaches(store, other, "completed")
    assert await texts(store, ref.thread_id) == ["I am (a name).", "You are Ann."]


async def test_rules_look_in_the_order_of_the_file_and_see_what_those_before_made(
    store: Store, engines: EngineRoom
) -> None:
    rules = [
        Guardrail("no_ann", GuardPoint.INPUT, no_ann),
        Guardrail("bob", GuardPoint.INPUT, lambda text: Rewrite(text.replace("(a name)", "Bob"))),
        Guardrail("no_bob", GuardPoint.INPUT, no_bob),
    ]
    engines.start("e1", guards=Guards(rules))
    ref = await start_run(store, echo("I am Ann."))
    await run_reaches(store, ref, "completed")
    assert await refusals(store, ref.thread_id) == ["Not about Bob."]
    assert len(await told(store, ref)) == 3


@pytest.mark.parametrize("tools", [frozenset(), frozenset({"a"})])
async def test_an_output_of_whoever_executes_is_looked_at_before_the_model_reads_it(
    store: Store, engines: EngineRoom, tools: frozenset[str]
) -> None:
    engines.start("e1", guards=guards(GuardPoint.TOOL_OUTPUT, no_ann, tools=tools))
    ref = await start_run(store, run_command(ASKS, tools=["a"]))
    await answer_call(store, await run_reaches(store, ref, "requires_action"), "Ann did it")
    await run_reaches(store, ref, "completed")
    assert (await texts(store, ref.thread_id))[-1] == "It says (a name) did it."


async def test_a_stopped_output_is_an_error_that_the_model_reads(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1", guards=guards(GuardPoint.TOOL_OUTPUT, no_bob))
    script = {"turns": [ASKS["turns"][0], {"text": "{{ outputs.a.error.message }}"}]}
    ref = await start_run(store, run_command(script, tools=["a"]))
    await answer_call(store, await run_reaches(store, ref, "requires_action"), "Bob did it")
    await run_reaches(store, ref, "completed")
    assert (await texts(store, ref.thread_id))[-1] == "no_bob: Not about Bob."


async def test_a_rule_for_other_tools_does_not_look(store: Store, engines: EngineRoom) -> None:
    rule = guards(GuardPoint.TOOL_OUTPUT, no_ann, tools=frozenset({"b"}))
    engines.start("e1", guards=rule)
    ref = await start_run(store, run_command(ASKS, tools=["a"]))
    await answer_call(store, await run_reaches(store, ref, "requires_action"), "Ann did it")
    await run_reaches(store, ref, "completed")
    assert (await texts(store, ref.thread_id))[-1] == "It says Ann did it."


async def test_what_a_client_says_in_the_assistants_name_is_looked_at_too(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1", guards=guards(GuardPoint.INPUT, no_ann))
    said = replace(new_message("I am Ann."), role="assistant")
    command = replace(echo("Who are you?"), additional_messages=(said, new_message("Who?")))
    ref = await start_run(store, command)
    await run_reaches(store, ref, "completed")
    groups = build("", grouped(await store.read_entries(ref.thread_id))).items
    assert groups[0] == Said("I am (a name).")


async def test_what_was_let_through_once_is_not_looked_at_again(
    store: Store, engines: EngineRoom
) -> None:
    seen: list[str] = []
    engines.start("e1", guards=guards(GuardPoint.INPUT, seen.append))
    ref = await start_run(store, echo("Hello."))
    await run_reaches(store, ref, "completed")
    later = await start_run(store, echo("And again."), ref.thread_id)
    await run_reaches(store, later, "completed")
    assert seen == ["Hello.", "And again."]


async def test_after_a_rollback_what_has_lost_its_verdict_gets_one_and_nothing_gets_two(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1", guards=guards(GuardPoint.INPUT, no_ann))
    ref = await start_run(store, echo("I am Ann."))
    await run_reaches(store, ref, "completed")
    await change_thread(store, ref.thread_id, AddMessages((new_message("Ann, not Anna."),)))
    asks = await start_run(store, run_command(ASKS, tools=["a"]), ref.thread_id)
    await run_reaches(store, asks, "requires_action")
    instead = replace(echo("Who am I?"), if_busy=IfBusy.ROLLBACK)
    last = await start_run(store, instead, ref.thread_id)
    await run_reaches(store, last, "completed")
    entries = await store.read_entries(ref.thread_id)
    places = [entry.of_seq for entry in entries if isinstance(entry, Guarded)]
    assert sorted(set(places)) == sorted(places)
    assert "Ann" not in str(build("", grouped(entries)))


async def test_the_record_of_a_turn_has_what_its_model_was_shown_before_or_after_the_rule(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    before = await start_run(store, echo("I am Ann."))
    await run_reaches(store, before, "completed")
    await engines.stop("e1")
    engines.start("e2", guards=guards(GuardPoint.INPUT, no_ann))
    after = await start_run(store, echo("Who am I?"), before.thread_id)
    view = await run_reaches(store, after, "completed")
    entries = await store.read_entries(before.thread_id)
    shown = []
    for ref in (before, after):
        (turn,) = await store.read_turns(ref)
        shown.append(request_body(turn, ref.run_id, view.spec, entries)["messages"][0]["content"])
    assert shown == ["I am Ann.", "I am (a name)."]


# -- what goes out ---------------------------------------------------------------------------------


async def test_no_word_is_in_the_log_before_the_whole_answer_was_looked_at(
    store: Store, engines: EngineRoom
) -> None:
    seen: list[list[EventType]] = []

    async def look(text: str) -> Rewrite:
        events = [event.type for _, event in await store.read_events(ref)]
        seen.append(events)
        return no_ann(text)

    ref = await start_run(store, run_command({"turns": [{"text": "Ask Ann about that."}]}))
    engines.start("e1", guards=guards(GuardPoint.OUTPUT, look))
    await run_reaches(store, ref, "completed")
    assert EventType.MESSAGE_CREATED not in seen[0]
    deltas = [event.delta for _, event in await store.read_events(ref) if event.delta]
    assert "".join(delta["text"] for delta in deltas) == "Ask (a name) about that."
    assert await texts(store, ref.thread_id) == ["Ask (a name) about that."]


async def test_a_stopped_answer_ends_the_run_with_a_refusal_and_without_its_calls(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1", guards=guards(GuardPoint.OUTPUT, no_bob))
    turn = {"text": "I ask Bob.", "tool_calls": [{"name": "a", "arguments": {}}]}
    ref = await start_run(store, run_command({"turns": [turn]}, tools=["a"]))
    view = await run_reaches(store, ref, "completed")
    assert await refusals(store, ref.thread_id) == ["Not about Bob."]
    assert view.calls == ()
    (delta,) = [event.delta for _, event in await store.read_events(ref) if event.delta]
    assert "I ask" not in str(delta)


async def test_a_models_own_refusal_is_looked_at_too(store: Store, engines: EngineRoom) -> None:
    engines.start("e1", guards=guards(GuardPoint.OUTPUT, no_ann))
    ref = await start_run(store, run_command({"turns": [{"refusal": "I do not know Ann."}]}))
    await run_reaches(store, ref, "completed")
    assert await refusals(store, ref.thread_id) == ["I do not know (a name)."]


async def test_the_client_is_asked_with_the_rewritten_arguments(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1", guards=guards(GuardPoint.TOOL_INPUT, no_ann))
    ref = await start_run(store, run_command(ASKS, tools=["a"]))
    view = await run_reaches(store, ref, "requires_action")
    assert [(c.arguments, c.asked_arguments) for c in view.calls] == [
        ('{"who":"(a name)"}', '{"who":"Ann"}')
    ]
    assert "Ann" not in str([event.delta for _, event in await store.read_events(ref)])


async def test_what_the_provider_wrote_of_a_turn_goes_with_what_was_rewritten(store: Store) -> None:
    run = Run(
        id="run_1", thread_id="t", status="in_progress", created_ms=0, deadline_ms=9, updated_ms=0
    )
    blocks = ({"type": "thinking", "thinking": "I ask Ann."},)
    for who, kept in {"Ann": (), "Carol": blocks}.items():
        reply = Reply(
            None, (ReplyCall("a", f'{{"who": "{who}"}}'),), StopReason.TOOLS, blocks=blocks
        )
        speech = Speech(store, run, 0.0)
        reviewed = await review(guards(GuardPoint.TOOL_INPUT, no_ann), reply, speech)
        assert reviewed.reply.blocks == kept


async def test_a_stopped_call_is_an_error_that_the_model_reads(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1", guards=guards(GuardPoint.TOOL_INPUT, no_bob))
    call = {"tool_calls": [{"name": "a", "arguments": {"who": "Bob"}}]}
    script = {"turns": [call, {"text": "{{ outputs.a.error.type }}"}]}
    ref = await start_run(store, run_command(script, tools=["a"]))
    view = await run_reaches(store, ref, "completed")
    assert await texts(store, ref.thread_id) == ["guardrail"]
    assert await told(store, ref) == [
        f"no_bob (tool_input) stopped {view.calls[0].id}: Not about Bob."
    ]


async def test_a_call_without_arguments_is_looked_at_as_well(
    store: Store, engines: EngineRoom
) -> None:
    def no_calls(arguments: str, tool: str) -> Stop:
        return Stop(f"Not {tool}.")

    engines.start("e1", guards=guards(GuardPoint.TOOL_INPUT, no_calls))
    script = {"turns": [{"tool_calls": [{"name": "a", "arguments": ""}]}]}
    ref = await start_run(store, run_command(script, tools=["a"]))
    view = await run_reaches(store, ref, "completed")
    assert [call.state for call in view.calls] == [CallState.FAILED]


# -- what fails closed -----------------------------------------------------------------------------


@pytest.fixture
def hanging() -> Iterator[Callable[[str], Any]]:
    """A plain function that hangs until the test is over, and would then let everything pass."""
    over = threading.Event()

    def hangs(text: str) -> None:
        over.wait(30)

    yield hangs
    over.set()


def crashes(text: str) -> Any:
    raise LookupError(text)


def ends_the_process(text: str) -> Any:
    raise SystemExit(text)


class Panic(BaseException):
    """As libraries in Rust raise it."""


def panics(text: str) -> Any:
    raise Panic(text)


def says_yes(text: str) -> Any:
    return True


def says_nothing(text: str) -> Any:
    return Stop("")


def says_half_a_pair(text: str) -> Any:
    return Rewrite("\ud83d")


def times_out_itself(text: str) -> Any:
    raise TimeoutError(text)


async def crashes_later(text: str) -> Any:
    await asyncio.sleep(0)
    raise LookupError(text)


async def cancels_itself(text: str) -> Any:
    raise asyncio.CancelledError


async def blocks_the_loop(text: str) -> Any:
    threading.Event().wait(0.3)


async def never_answers(text: str) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "function",
    [
        crashes,
        ends_the_process,
        panics,
        times_out_itself,
        says_yes,
        says_nothing,
        says_half_a_pair,
        crashes_later,
        cancels_itself,
        never_answers,
        blocks_the_loop,
    ],
)
async def test_what_a_failing_rule_looks_at_does_not_pass(
    store: Store, engines: EngineRoom, function: Callable[..., Any]
) -> None:
    engines.start("e1", guards=guards(GuardPoint.INPUT, function, timeout_s=0.2))
    ref = await start_run(store, echo("I am Ann."))
    await run_reaches(store, ref, "completed")
    (refusal,) = await refusals(store, ref.thread_id)
    assert refusal == (
        f"The guardrail {function.__name__} could not be applied, so this was stopped."
    )
    (detail,) = await told(store, ref)
    assert detail is not None
    assert "Ann" not in detail


async def test_a_thread_that_hangs_holds_up_its_own_text_alone(
    store: Store, engines: EngineRoom, hanging: Callable[[str], Any]
) -> None:
    engines.start("e1", guards=guards(GuardPoint.OUTPUT, hanging, timeout_s=0.2))
    refs = [await start_run(store, echo("Hello.")) for _ in range(40)]
    for ref in refs:
        await run_reaches(store, ref, "completed")
        assert len(await refusals(store, ref.thread_id)) == 1
    threads = [thread for thread in threading.enumerate() if thread.name == "guardrail hangs"]
    assert threads
    assert all(thread.daemon for thread in threads), "the process could not end"


async def test_a_cancelled_run_does_not_wait_for_its_guardrail(
    store: Store, engines: EngineRoom
) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    async def slow(text: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()

    engines.start("e1", guards=guards(GuardPoint.INPUT, slow, timeout_s=60))
    ref = await start_run(store, echo("Hello."))
    await begun.wait()
    await change_run(store, ref, Cancel(60_000))
    await run_reaches(store, ref, "cancelled")
    assert (await over.wait(), await store.read_turns(ref)) == (True, ()), "nothing was sent"


# -- crashes ---------------------------------------------------------------------------------------


async def play(store: Store, engines: EngineRoom, fail_at: int, *, after: bool) -> int:
    """A run with a rule of each kind and a fault; returns how many calls the engine made."""
    failing = FailingStore(store, fail_at, after=after)
    rules = Guards([Guardrail("no_ann", point, no_ann) for point in GuardPoint])
    name = f"e{fail_at}"
    engines.start(name, failing, guards=rules)
    ref = await start_run(store, run_command(ASKS, tools=["a"]))
    await answer_call(store, await run_reaches(store, ref, "requires_action"), "Ann did it")
    await run_reaches(store, ref, "completed")
    assert await texts(store, ref.thread_id) == ["Let me look.", "It says (a name) did it."]
    entries = await store.read_entries(ref.thread_id)
    assert [entry.kind for entry in entries if entry.kind == "guarded"] == ["guarded"] * 2
    await engines.kill(name)
    return failing.calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_fault_at_any_call_repeats_guardrails_harmlessly(
    store: Store, engines: EngineRoom, after: bool
) -> None:
    calls = await play(store, engines, 0, after=after)
    for fail_at in range(1, calls + 1):
        await play(store, engines, fail_at, after=after)
