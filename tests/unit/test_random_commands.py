"""Random commands at random times, right and wrong ones, against all invariants.

Where ``explorer`` walks all of a small run, this wanders through larger ones: several runs on one
thread, many calls in a turn, clocks that go back, caps, commands for runs long ended.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from orchestrator.commands import (
    AddMessages,
    AnswerApprovals,
    ApplyGuards,
    Approval,
    CallLost,
    CallProgress,
    CallResult,
    Cancel,
    CheckWait,
    ClaimCall,
    Command,
    Compact,
    ConfirmCancel,
    CreateRun,
    DeleteThread,
    Expire,
    IfBusy,
    ImportMessage,
    ModifyRun,
    OpenCalls,
    OpenMessage,
    Outcome,
    PostponeCall,
    ProposedCall,
    RequeueCall,
    RequeueTurn,
    ResolveCall,
    RetryCall,
    RunOut,
    SendAgain,
    StartTurn,
    Stop,
    SubmitOutputs,
    TimeOutApproval,
    TurnFailed,
    TurnResult,
)
from orchestrator.errors import BadRequest, Gone, IllegalTransition, NotNow
from orchestrator.projection import public_status, required_calls
from orchestrator.records import (
    Aggregate,
    AskedCall,
    CallRound,
    CallState,
    Entry,
    Guarded,
    Message,
    Output,
    Price,
    StepStatus,
    ToolCall,
    Usage,
)
from orchestrator.states import RunStatus
from tests.unit.play import (
    CALL_LEASE_MS,
    DECLARED,
    PUBLISHED,
    TTL_MS,
    TURN_LEASE_MS,
    WATCHDOG_MS,
    Play,
    spec,
)
from tests.unit.world import RunTimer, a_record, due_command

ENDS_THE_CLIENTS_WAIT = (
    SubmitOutputs,
    AnswerApprovals,
    TimeOutApproval,
    ResolveCall,
    Cancel,
    Expire,
)

FENCED = (
    ApplyGuards,
    OpenMessage,
    OpenCalls,
    TurnResult,
    TurnFailed,
    RunOut,
    Compact,
    RequeueTurn,
    CallResult,
    CallLost,
)

T = TypeVar("T")
places = st.integers(0, 7)
names = st.lists(st.sampled_from([*DECLARED, "missing"]), max_size=4)


ASKED = AskedCall(call_id="call_past", name="look_up", arguments="{}")
PAST = (
    Message(seq=0, id="msg_past", thread_id="there", created_ms=1, role="user", content=()),
    CallRound(seq=1, run_id="run_past", turn=0, calls=(ASKED,)),
    Output(seq=3, run_id="run_past", call_id="call_past", text="yes"),
)
"""What the thread of a replay begins with."""

PRICE = Price(prompt=0.7, completion=1.3)
"""A turn costs no whole number of millionths."""


class Commands(RuleBasedStateMachine):
    """One thread, whatever may happen to it. Most rules do what makes sense now; ``do_anything``
    does not care.
    """

    def __init__(self) -> None:
        super().__init__()
        self.play = Play()
        self.run_ids: list[str] = []

    # -- what makes sense --------------------------------------------------------------------------

    @initialize(past=st.sampled_from([(), PAST]), price=st.sampled_from([None, PRICE]))
    def begin(self, past: tuple[Entry, ...], price: Price | None) -> None:
        self.play.create(past=past, price=price)
        self.run_ids.append(self.play.run.id)

    @rule(ms=st.sampled_from([1, 500, 1_000, 4_000, 16_000, -700]), is_noticed=st.booleans())
    def time_passes(self, ms: int, is_noticed: bool) -> None:
        self.play.later(ms)
        for (run_id, key), at_ms in sorted(self.play.world.timers.items(), key=by_time):
            if is_noticed and at_ms <= self.play.now_ms:
                self.send(due_command(key), self.age_of(run_id))

    @precondition(lambda self: self.play.run.is_final)
    @rule(
        messages=st.integers(0, 2),
        caps=st.sampled_from(
            [
                {},
                {},
                {"max_turns": 2},
                {"max_completion_tokens": 3},
                {"max_prompt_tokens": 25},
                {"executor": "client"},
                {"price": PRICE, "max_cost_usd": 0.00003},
            ]
        ),
    )
    def create(self, messages: int, caps: dict[str, Any]) -> None:
        self.play.create(*["hello"] * messages, **caps)
        self.run_ids.append(self.play.run.id)

    @precondition(lambda self: self.play.run.is_final)
    @rule()
    def add_message(self) -> None:
        self.play.add("hello")

    @rule(
        if_busy=st.sampled_from([IfBusy.ENQUEUE, IfBusy.INTERRUPT, IfBusy.ROLLBACK]),
        messages=st.integers(0, 2),
        is_run=st.booleans(),
    )
    def text_again(self, if_busy: IfBusy, messages: int, is_run: bool) -> None:
        texts = ["hello"] * messages
        if is_run:
            self.run_ids.insert(0, self.play.text(if_busy, *texts))
        else:
            self.play.add(*texts, if_busy=if_busy)
        self.follow()

    @precondition(lambda self: self.play.status is RunStatus.QUEUED)
    @rule()
    def start(self) -> None:
        self.send(StartTurn("engine_1", TURN_LEASE_MS))

    @precondition(lambda self: self.play.run.engine)
    @rule(place=places, refusal=st.sampled_from([None, None, None, "Not here."]))
    def guard(self, place: int, refusal: str | None) -> None:
        self.send(self.guarding(0, place, refusal))

    @precondition(lambda self: self.play.run.engine)
    @rule(words=st.sampled_from(["", "Let me"]))
    def speak(self, words: str) -> None:
        self.send(self.opening(0))
        if self.play.run.engine:
            self.play.world = self.play.world.say(self.play.run.id, words)

    @precondition(lambda self: self.play.run.engine)
    @rule()
    def begin_calls(self) -> None:
        self.send(OpenCalls(self.play.run.generation, self.play.mint("step")))

    @precondition(lambda self: self.play.run.engine)
    @rule(
        asked=names,
        text=st.sampled_from([None, "Here you are."]),
        stop=st.sampled_from([Stop.DONE, Stop.TOOLS, Stop.TOOLS, Stop.LENGTH, Stop.FILTER]),
        usage=st.sampled_from([None, Usage(prompt_tokens=10, completion_tokens=1)]),
        refusal=st.sampled_from([None, None, None, "The arguments do not fit."]),
        declined=st.sampled_from([None, None, None, "I would rather not."]),
    )
    def reply(
        self,
        *,
        asked: list[str],
        text: str | None,
        stop: Stop,
        usage: Usage | None,
        refusal: str | None,
        declined: str | None,
    ) -> None:
        mint = self.play.mint
        calls = [ProposedCall(mint("call"), name, "{}", "call_0", refusal) for name in asked]
        self.send(replace(self.result(0, calls, text, stop, usage), refusal=declined))

    @precondition(lambda self: self.play.run.engine and not self.is_speaking())
    @rule(
        text=st.sampled_from(["It was about lighthouses.", None]),
        usage=st.sampled_from([None, Usage(prompt_tokens=5)]),
    )
    def summarise(self, text: str | None, usage: Usage | None) -> None:
        self.play.compact(text, usage)

    @precondition(lambda self: self.dispatched())
    @rule(place=places)
    def claim(self, place: int) -> None:
        call_id = pick(self.dispatched(), place).id
        claim = ClaimCall(call_id, "worker_1", CALL_LEASE_MS, self.play.mint("nonce"))
        self.send(claim)
        before = self.load(0)
        self.send(claim)
        assert self.load(0) == before

    @precondition(lambda self: self.started())
    @rule(place=places, outcome=st.sampled_from(Outcome), full=st.sampled_from([None, "all of it"]))
    def finish(self, place: int, outcome: Outcome, full: str | None) -> None:
        call = pick(self.started(), place)
        result = CallResult(call.id, call.generation, outcome, outcome, full=full)
        self.send(result)
        before = self.load(0)
        self.send(result)
        assert self.load(0) == before

    @precondition(lambda self: self.load(0).client_calls())
    @rule()
    def submit(self) -> None:
        self.send(SubmitOutputs(tuple((c.id, "yes") for c in self.load(0).client_calls())))

    @precondition(lambda self: self.load(0).calls_to_approve())
    @rule(place=places, is_approved=st.booleans(), arguments=st.sampled_from([None, '{"a": 1}']))
    def answer_approval(self, *, place: int, is_approved: bool, arguments: str | None) -> None:
        call = pick(self.load(0).calls_to_approve(), place)
        self.send(AnswerApprovals((Approval(call.id, is_approved, arguments),)))

    # -- what may not ------------------------------------------------------------------------------

    @rule(
        kind=st.integers(0, 31),
        age=st.sampled_from([0, 0, 1, 2]),
        place=places,
        shift=st.sampled_from([0, 0, -1, 1]),
    )
    def do_anything(self, kind: int, age: int, place: int, shift: int) -> None:
        command, run_id = pick(self.everything(age, place, shift), kind), self.run_id(age)
        self.play.look_at_the_clock(run_id)
        before = self.play.world.load(run_id)
        self.send(command, age)
        if shift and isinstance(command, FENCED):
            after = self.play.world.load(run_id)
            assert without_late_results(after) == without_late_results(before)

    def old_message(self) -> Message:
        """A message of another server."""
        thread_id, message_id = self.play.world.thread.id, self.play.mint("msg")
        return Message(
            seq=0, id=message_id, thread_id=thread_id, created_ms=1, role="user", content=()
        )

    def everything(self, age: int, place: int, shift: int) -> list[Command]:
        """One command of each kind, whether or not it makes sense."""
        aggregate = self.load(age)
        calls = aggregate.calls[-7:]
        call_id = calls[place].id if place < len(calls) else "call_of_nobody"
        held = shift + (calls[place].generation if place < len(calls) else 0)
        turn = shift + self.play.run.generation
        record = a_record(self.play.run, turn)
        waiting = tuple((call.id, "yes") for call in aggregate.client_calls())
        asked = [ProposedCall(self.play.mint("call"), "look_up", "{}")]
        return [
            AddMessages((self.play.message("hello"),)),
            ImportMessage(self.old_message()),
            CreateRun("run_of_nobody", spec(), TTL_MS),
            StartTurn("engine_2", TURN_LEASE_MS),
            self.guarding(shift, place, None),
            self.opening(shift),
            OpenCalls(turn, self.play.mint("step")),
            self.result(shift, asked, "Wait.", pick(tuple(Stop), place), Usage(prompt_tokens=7)),
            TurnFailed(turn, "invalid_prompt", "Too long.", 2, record),
            RunOut(turn, "Too much.", record),
            Compact(turn, None, (), Usage(prompt_tokens=3), record),
            RequeueTurn(turn, 1, record),
            ClaimCall(call_id, "worker_2", CALL_LEASE_MS),
            CallResult(call_id, held, Outcome.FAILED, "No.", "it raised"),
            CallLost(call_id, held, "its worker is silent"),
            CallProgress(call_id, held, "half"),
            RetryCall(call_id, held, "No.", "it raised", place * 1_000),
            SendAgain(call_id, held),
            PostponeCall(call_id, held, "Others are at it."),
            CheckWait(call_id, held, frozenset({"tools"} if place % 2 else ()), 10_000),
            AnswerApprovals((Approval(call_id, place % 2 == 0),) * (1 + shift % 2)),
            TimeOutApproval(call_id),
            ResolveCall(call_id, "No.", CallState.FAILED),
            RequeueCall(call_id),
            SubmitOutputs(waiting[1:]),
            SubmitOutputs(waiting * 2),
            SubmitOutputs((*waiting, (call_id, "yes"))),
            ResolveCall(call_id, "It did.", arguments=pick([None, '{"a": 2}'], place)),
            ModifyRun({"colour": "red"}),
            Cancel(WATCHDOG_MS),
            ConfirmCancel(),
            Expire(),
        ]

    @invariant()
    def what_is_wrong_changes_nothing(self) -> None:
        self.play.look_at_the_clock(self.play.run_id)
        run_id = self.play.run.id
        before = without_late_results(self.play.world.load(run_id))
        for command in self.wrong():
            self.send(command)
            assert without_late_results(self.play.world.load(run_id)) == before, command

    def wrong(self) -> Iterator[Command]:
        """Commands of those who hold nothing, or not what they think."""
        calls, generation = self.play.calls[-4:], self.play.run.generation
        waiting = tuple((call.id, "yes") for call in self.load(0).client_calls())
        for call in calls:
            yield CallResult(call.id, call.generation - 1, Outcome.SUCCEEDED, "late")
            yield CallLost(call.id, call.generation + 1, "its worker is silent")
            if call.state is not CallState.AWAITING_APPROVAL:
                yield AnswerApprovals((Approval(call.id, is_approved=True),))
                yield TimeOutApproval(call.id)
            if call.state is not CallState.DISPATCHED:
                yield ClaimCall(call.id, "worker_2", CALL_LEASE_MS)
        yield SubmitOutputs(waiting[1:])
        yield SubmitOutputs((*waiting, ("call_of_nobody", "yes")))
        if waiting:
            yield SubmitOutputs((*waiting, waiting[0]))
        yield TurnFailed(generation - 1, "server_error", "It broke.")
        yield RequeueTurn(generation + 1)
        yield self.opening(-1)
        yield OpenCalls(generation + 1, self.play.mint("step"))
        yield self.guarding(1, 0, "Not here.")
        if self.play.status is not RunStatus.QUEUED:
            yield StartTurn("engine_2", TURN_LEASE_MS)

    def teardown(self) -> None:
        """Everybody is gone: the clock alone ends what is left, and the thread is free."""
        while timers := self.play.world.timers:
            (run_id, key), at_ms = min(timers.items(), key=by_time)
            self.play.now_ms = max(self.play.now_ms, at_ms)
            self.send(due_command(key), self.age_of(run_id))
            assert self.play.world.timers.get((run_id, key)) != at_ms, f"{key} was due in vain"
        assert self.play.run.is_final
        self.play.add("still there?")
        self.play.ask(DeleteThread())
        assert self.play.world.thread.is_deleted

    # -- how ---------------------------------------------------------------------------------------

    def send(self, command: Command, age: int = 0) -> None:
        """The command to a run; a refusal is fine, a hole in the table is not."""
        before, run_id = self.load(age), self.run_id(age)
        if isinstance(command, CreateRun) and self.play.run.is_final:
            return
        try:
            self.play.ask(command, run_id)
        except IllegalTransition:
            raise
        except (BadRequest, NotNow, Gone):
            return
        finally:
            self.follow()
        after = self.play.world.load(run_id)
        check_that_clients_see_what_they_wait_for(command, before, after)

    def follow(self) -> None:
        """Play with the active run. Ages count from it; others may wait behind it."""
        if active := self.play.world.thread.active_run_id:
            self.run_ids.remove(active)
            self.run_ids.append(active)
            self.play.run_id = active

    def opening(self, shift: int) -> OpenMessage:
        mint = self.play.mint
        return OpenMessage(self.play.run.generation + shift, mint("msg"), mint("step"))

    def guarding(self, shift: int, place: int, refusal: str | None) -> ApplyGuards:
        """Of an entry that no guardrail has spoken for, if there is one."""
        entries, generation = self.play.world.entries, self.play.run.generation + shift
        spoken_for = {entry.of_seq for entry in entries if isinstance(entry, Guarded)}
        left = [x.seq for x in entries if x.kind != "guarded" and x.seq not in spoken_for]
        chosen = left[place : place + 1]
        return self.play.guarding(*chosen, refusal=refusal, generation=generation)

    def result(
        self,
        shift: int,
        calls: list[ProposedCall],
        text: str | None,
        stop: Stop,
        usage: Usage | None,
    ) -> TurnResult:
        mint, generation = self.play.mint, self.play.run.generation + shift
        return TurnResult(
            generation=generation,
            text=text,
            calls=tuple(calls),
            stop=stop,
            usage=usage,
            message_id=mint("msg"),
            message_step_id=mint("step"),
            calls_step_id=mint("step"),
            tools=PUBLISHED,
            failed_attempts=1,
            record=a_record(self.play.run, generation),
        )

    def load(self, age: int) -> Aggregate:
        return self.play.world.load(self.run_id(age))

    def run_id(self, age: int) -> str:
        return self.run_ids[max(-1 - age, -len(self.run_ids))]

    def age_of(self, run_id: str) -> int:
        return self.run_ids[::-1].index(run_id)

    def is_speaking(self) -> bool:
        return any(step.status is StepStatus.IN_PROGRESS for step in self.play.steps)

    def dispatched(self) -> list[ToolCall]:
        return [call for call in self.play.calls if call.state is CallState.DISPATCHED]

    def started(self) -> list[ToolCall]:
        return [call for call in self.play.calls if call.state is CallState.STARTED]


def check_that_clients_see_what_they_wait_for(
    command: Command, before: Aggregate, after: Aggregate
) -> None:
    """A client that polls sees the same calls until they are answered or the run ends."""
    assert before.run
    assert after.run
    waiting = required_calls(before.run, before.calls)
    if waiting and not isinstance(command, ENDS_THE_CLIENTS_WAIT) and not after.run.is_final:
        assert public_status(after.run, after.calls) is RunStatus.REQUIRES_ACTION
        shown = required_calls(after.run, after.calls)
        assert [call.id for call in shown] == [call.id for call in waiting]


def without_late_results(aggregate: Aggregate) -> Aggregate:
    """What a command under a wrong generation must leave as it was."""
    assert aggregate.run
    calls = tuple(call.but(late=()) for call in aggregate.calls)
    return aggregate.but(run=aggregate.run.but(updated_ms=0), calls=calls)


def pick(choices: Sequence[T], place: int) -> T:
    """One of them, whatever the number."""
    return choices[place % len(choices)]


def by_time(timer: tuple[RunTimer, int]) -> int:
    """To sort timers by."""
    return timer[1]


Commands.TestCase.settings = settings(max_examples=250, stateful_step_count=50)
TestRandomCommands = Commands.TestCase
