"""A run to play with: one short verb per command, ids and clock included.

Every verb goes through ``World``, so each test of a rule is also a test of all invariants.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from orchestrator.commands import (
    AddMessages,
    AnswerApprovals,
    ApplyGuards,
    Approval,
    CallLost,
    CallResult,
    Cancel,
    CheckWait,
    ClaimCall,
    Command,
    Compact,
    ConfirmCancel,
    CreateRun,
    Expire,
    IfBusy,
    ModifyRun,
    NewMessage,
    OpenCalls,
    OpenMessage,
    Outcome,
    PostponeCall,
    ProposedCall,
    RequeueCall,
    RequeueTurn,
    ResolveCall,
    RetryCall,
    SendAgain,
    StartTurn,
    Stop,
    SubmitOutputs,
    TurnFailed,
    TurnResult,
)
from orchestrator.conversation import grouped
from orchestrator.decide.calls import error_text
from orchestrator.decisions import Decision, Effect, EventType
from orchestrator.errors import LastErrorCode
from orchestrator.projection import public_status
from orchestrator.records import (
    Entry,
    Firing,
    Guarded,
    GuardPoint,
    Message,
    Output,
    Run,
    RunSpec,
    Step,
    ToolCall,
    ToolSpec,
    Usage,
)
from orchestrator.states import RunStatus
from orchestrator.turn_record import places, spans
from tests.unit.world import PATIENCE_MS, World, a_record

TTL_MS: Final = 600_000
TURN_LEASE_MS: Final = 15_000
CALL_LEASE_MS: Final = 10_000
WATCHDOG_MS: Final = 5_000

PUBLISHED: Final[Mapping[str, ToolSpec]] = {
    "look_up": ToolSpec(name="look_up", side_effects="none", max_attempts=3),
    "update": ToolSpec(name="update", side_effects="idempotent", max_attempts=2),
    "charge": ToolSpec(name="charge", side_effects="once", max_attempts=2),
    "transfer": ToolSpec(name="transfer", side_effects="once", on_unknown="hold"),
    "refund": ToolSpec(name="refund", approval="required", approval_timeout_s=60),
}
"""Tools that workers serve; the run declares them and ``ask_user``, which is the client's."""

DECLARED: Final = (*PUBLISHED, "ask_user")


def spec(**changes: Any) -> RunSpec:
    """What the runs of these tests are asked to do."""
    tools = tuple({"type": "function", "function": {"name": name}} for name in DECLARED)
    return RunSpec(assistant_id="asst_1", model="scripted/none", tools=tools).but(**changes)


def text_part(text: str) -> dict[str, Any]:
    """Text as messages store it."""
    return {"type": "text", "text": {"value": text, "annotations": []}}


class Play:
    """One thread and its latest run. ``decision`` is what the last verb led to."""

    def __init__(self) -> None:
        self.world = World()
        self.run_id: str | None = None
        self.now_ms = 1_000
        self.decision: Decision
        self._minted: Counter[str] = Counter()

    def ask(self, command: Command, run_id: str | None = None) -> Decision:
        """Any command, to the latest run or to the one that is named."""
        run_id = run_id or self.run_id
        self.look_at_the_clock(run_id)
        self.world, self.decision = self.world.ask(command, self.now_ms, run_id)
        return self.decision

    def look_at_the_clock(self, run_id: str | None) -> None:
        """What happens before every command: a run that is overdue expires."""
        self.world = self.world.pass_deadline(run_id, self.now_ms)

    def later(self, ms: int) -> None:
        """Let time pass; backwards too, as a clock may."""
        self.now_ms += ms

    def mint(self, kind: str) -> str:
        """A new id, such as ``call_3``."""
        self._minted[kind] += 1
        return f"{kind}_{self._minted[kind]}"

    # -- what is there -----------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """The latest run."""
        assert self.run_id
        return self.world.run(self.run_id)

    @property
    def status(self) -> RunStatus:
        """Its status."""
        return self.run.status

    @property
    def public(self) -> RunStatus:
        """The status that clients are shown."""
        return public_status(self.run, self.calls)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Its ledger."""
        return self.world.load(self.run_id).calls

    @property
    def steps(self) -> tuple[Step, ...]:
        """Its steps."""
        return self.world.load(self.run_id).steps

    @property
    def messages(self) -> list[Message]:
        """The messages of the thread."""
        return [entry for entry in self.world.entries if isinstance(entry, Message)]

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs in the thread, by call."""
        return {e.call_id: e.text for e in self.world.entries if isinstance(e, Output)}

    @property
    def events(self) -> list[EventType]:
        """What the last verb told."""
        return [event.type for event in self.decision.events]

    def effects(self, kind: type[Effect]) -> list[Effect]:
        """What the last verb asked for, of one kind."""
        return [effect for effect in self.decision.effects if isinstance(effect, kind)]

    # -- the client --------------------------------------------------------------------------------

    def message(self, text: str) -> NewMessage:
        """A message of the user, not yet added."""
        return NewMessage(id=self.mint("msg"), role="user", content=(text_part(text),))

    def add(self, *texts: str, if_busy: IfBusy = IfBusy.REJECT) -> None:
        """Add messages to the thread."""
        messages = tuple(self.message(text) for text in texts)
        self.ask(AddMessages(messages, if_busy, WATCHDOG_MS))

    def create(
        self, *texts: str, ttl_ms: int = TTL_MS, past: tuple[Entry, ...] = (), **changes: Any
    ) -> None:
        """Start a run, with messages of its own."""
        run_id, asked = self.mint("run"), spec(**changes)
        messages = tuple(self.message(text) for text in texts)
        self.ask(CreateRun(run_id, asked, ttl_ms, additional_messages=messages, past=past))
        self.run_id = run_id

    def text(self, if_busy: IfBusy, *texts: str, ttl_ms: int = TTL_MS) -> str:
        """Start another run in spite of the active one, which stays the one to play with; returns
        its id.
        """
        run_id = self.mint("run")
        messages = tuple(self.message(text) for text in texts)
        create = CreateRun(run_id, spec(), ttl_ms, {}, messages, if_busy, WATCHDOG_MS)
        self.ask(create)
        return run_id

    def submit(self, outputs: Mapping[str, str] | Sequence[tuple[str, str]]) -> None:
        """Submit outputs by call id."""
        pairs = outputs.items() if isinstance(outputs, Mapping) else outputs
        self.ask(SubmitOutputs(tuple(pairs)))

    def cancel(self) -> None:
        """Ask the run to stop."""
        self.ask(Cancel(WATCHDOG_MS))

    def modify(self, **metadata: str) -> None:
        """Replace the metadata."""
        self.ask(ModifyRun(metadata))

    def resolve(self, call: ToolCall, text: str, **how: Any) -> None:
        """Answer a call as an operator."""
        self.ask(ResolveCall(call.id, text, **how))

    def approve(self, call: ToolCall, arguments: str | None = None) -> ToolCall:
        """Let a call start; returns it as it is now."""
        self.ask(AnswerApprovals((Approval(call.id, True, arguments),)))
        return self.call(call)

    def reject(self, call: ToolCall, reason: str | None = None) -> ToolCall:
        """Do not let a call start; returns it as it is now."""
        self.ask(AnswerApprovals((Approval(call.id, False, reason=reason),)))
        return self.call(call)

    def expire(self) -> None:
        """Look at the deadline."""
        self.ask(Expire())

    # -- the engine --------------------------------------------------------------------------------

    def start(self, engine: str = "engine_1") -> int:
        """Take the turn; returns its generation."""
        self.ask(StartTurn(engine, TURN_LEASE_MS))
        return self.run.generation

    def guard(
        self,
        *of_seqs: int,
        text: str = "…",
        refusal: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Say what guardrails made of these entries: other words, or a message to be refused."""
        self.ask(self.guarding(*of_seqs, text=text, refusal=refusal, generation=generation))

    def guarding(
        self,
        *of_seqs: int,
        text: str = "…",
        refusal: str | None = None,
        generation: int | None = None,
    ) -> ApplyGuards:
        """The command of that."""
        held = self.run.generation if generation is None else generation
        firing = Firing(
            rule="no_names",
            on=GuardPoint.INPUT,
            verdict="stop" if refusal else "rewrite",
            subject="msg_1",
            reason=refusal,
        )
        guarded = tuple(
            Guarded(seq=0, run_id=self.run.id, of_seq=seq, text=text, is_stopped=bool(refusal))
            for seq in of_seqs
        )
        until_seq = self.world.thread.next_seq
        ids = (self.mint("msg"), self.mint("step"))
        firings = (firing,) * len(of_seqs)
        return ApplyGuards(held, until_seq, guarded, firings, *ids, refusal=refusal)

    def compact(
        self,
        text: str | None = "It was about lighthouses.",
        usage: Usage | None = None,
        generation: int | None = None,
    ) -> None:
        """Put a summary in the place of all that may go but the newest."""
        held = self.run.generation if generation is None else generation
        groups = (group for group in grouped(self.world.entries)[:-1] if not group.is_pinned)
        seqs = (seq for group in groups for seq in (*group.seqs, *places(group.replaces)))
        self.ask(Compact(held, text, spans(seqs), usage))

    def speak(self, words: str = "", generation: int | None = None) -> Message:
        """Begin to speak, and say these words; returns the message as it was begun."""
        held = self.run.generation if generation is None else generation
        self.ask(OpenMessage(held, self.mint("msg"), self.mint("step")))
        if words:
            self.world = self.world.say(self.run.id, words)
        return self.messages[-1]

    def begin_calls(self, generation: int | None = None) -> Step:
        """Begin to ask for tools; returns the step."""
        held = self.run.generation if generation is None else generation
        self.ask(OpenCalls(held, self.mint("step")))
        return self.steps[-1]

    def reply(
        self,
        *asked: str | ProposedCall,
        text: str | None = None,
        stop: Stop | None = None,
        generation: int | None = None,
        usage: Usage | None = None,
        published: Mapping[str, ToolSpec] = PUBLISHED,
        **changes: Any,
    ) -> tuple[ToolCall, ...]:
        """Bring the model's reply: these tools asked for (by name), or words. Returns the calls of
        the round.
        """
        calls = tuple(
            ProposedCall(self.mint("call"), call, "{}") if isinstance(call, str) else call
            for call in asked
        )
        held = self.run.generation if generation is None else generation
        result = TurnResult(
            generation=held,
            text=text,
            calls=calls,
            stop=stop or (Stop.TOOLS if calls else Stop.DONE),
            usage=usage,
            message_id=self.mint("msg"),
            message_step_id=self.mint("step"),
            calls_step_id=self.mint("step"),
            tools=published,
            **{"record": a_record(self.run, held)} | changes,
        )
        self.ask(result)
        known = {call.id: call for call in self.calls}
        return tuple(known[call.call_id] for call in calls if call.call_id in known)

    def fail_turn(self, code: LastErrorCode = "server_error", message: str = "It broke.") -> None:
        """The model call failed for good."""
        self.ask(TurnFailed(self.run.generation, code, message, failed_attempts=3))

    def requeue(self, generation: int | None = None) -> None:
        """Give up a turn: by the engine itself, or because it is silent."""
        self.ask(RequeueTurn(self.run.generation if generation is None else generation))

    def confirm_cancel(self) -> None:
        """Say that nobody talks to the model any more."""
        self.ask(ConfirmCancel())

    # -- the workers -------------------------------------------------------------------------------

    def claim(self, call: ToolCall, worker: str = "worker_1") -> ToolCall:
        """Take a call; returns it as it is now."""
        self.ask(ClaimCall(call.id, worker, CALL_LEASE_MS))
        return self.call(call)

    def finish(
        self,
        call: ToolCall,
        text: str = "done",
        outcome: Outcome = Outcome.SUCCEEDED,
        error: str | None = None,
        **about: str,
    ) -> ToolCall:
        """Answer a call under the generation that the caller knows; returns it as it is now."""
        self.ask(CallResult(call.id, call.generation, outcome, text, error, **about))
        return self.call(call)

    def lose(self, call: ToolCall) -> ToolCall:
        """Say that the call's worker is gone; returns it as it is now."""
        self.ask(CallLost(call.id, call.generation, "its worker is silent"))
        return self.call(call)

    def send_again(self, call: ToolCall) -> ToolCall:
        """The pause after a loss is over; returns the call as it is now."""
        self.ask(SendAgain(call.id, call.generation))
        return self.call(call)

    def postpone(self, call: ToolCall, reason: str) -> None:
        """A worker finds that the call has to wait."""
        self.ask(PostponeCall(call.id, call.generation, reason))

    def retry(self, call: ToolCall, after_ms: int | None = None) -> ToolCall:
        """The tool asks to be called again; returns the call as it is now."""
        text = error_text("exception", "Busy.", is_retryable=True)
        self.ask(RetryCall(call.id, call.generation, text, "Busy.", after_ms))
        return self.call(call)

    def check_wait(self, call: ToolCall, *served: str) -> ToolCall:
        """Look after a call that nobody has claimed; returns it as it is now."""
        self.ask(CheckWait(call.id, call.generation, frozenset(served), PATIENCE_MS))
        return self.call(call)

    def requeue_call(self, call: ToolCall) -> ToolCall:
        """Send a call again as an operator; returns it as it is now."""
        self.ask(RequeueCall(call.id))
        return self.call(call)

    def call(self, call: ToolCall) -> ToolCall:
        """A call as it is now."""
        return next(other for other in self.calls if other.id == call.id)


def a_run(**changes: Any) -> Play:
    """A run that is queued."""
    play = Play()
    play.create("What should I read next?", **changes)
    return play


def a_turn(**changes: Any) -> Play:
    """A run whose first turn an engine has."""
    play = a_run(**changes)
    play.start()
    return play


def a_round(*asked: str | ProposedCall, **changes: Any) -> Play:
    """A run whose first turn asked for these tools."""
    play = a_turn(**changes)
    play.reply(*asked)
    return play


def a_cancelled_turn(**changes: Any) -> Play:
    """A run that is being cancelled while an engine talks to the model."""
    play = a_turn(**changes)
    play.cancel()
    return play


def a_held_call() -> Play:
    """A run that waits for an operator: nobody knows whether its call took effect."""
    play = a_round("transfer")
    play.lose(play.claim(play.calls[0]))
    return play


def a_completed_run() -> Play:
    """A run that has its answer."""
    play = a_turn()
    play.reply(text="Read Dune.")
    return play


def a_failed_run() -> Play:
    """A run whose model could not be asked."""
    play = a_turn()
    play.fail_turn()
    return play


def an_incomplete_run() -> Play:
    """A run whose answer was cut off."""
    play = a_turn()
    play.reply(text="It was a dark and", stop=Stop.LENGTH)
    return play


def an_expired_run() -> Play:
    """A run whose client never answered."""
    play = a_round("ask_user")
    play.later(TTL_MS)
    play.expire()
    return play


def a_cancelled_run() -> Play:
    """A run that was cancelled while a worker was at a call."""
    play = a_round("look_up")
    play.claim(play.calls[0])
    play.cancel()
    return play


ACTIVE: Final[Mapping[str, Callable[[], Play]]] = {
    "queued": a_run,
    "in progress": a_turn,
    "waiting for the client": lambda: a_round("ask_user"),
    "waiting for workers": lambda: a_round("look_up", "charge"),
    "waiting for both": lambda: a_round("ask_user", "look_up"),
    "waiting for an operator": a_held_call,
    "waiting for an approval": lambda: a_round("refund"),
    "cancelling": a_cancelled_turn,
}
"""A run in each situation in which it is not over."""

ENDED: Final[Mapping[str, Callable[[], Play]]] = {
    "completed": a_completed_run,
    "failed": a_failed_run,
    "incomplete": an_incomplete_run,
    "expired": an_expired_run,
    "cancelled": a_cancelled_run,
}
"""A run in each final status."""
