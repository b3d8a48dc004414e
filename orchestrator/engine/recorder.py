"""What is written down of a turn while it is played: how it was asked, failed and answered."""

import asyncio
from collections import defaultdict

from orchestrator.engine.prompt import Prompt
from orchestrator.errors import ModelError, StaleTurn
from orchestrator.llm.protocol import Reply, TurnRequest
from orchestrator.records import Run, RunSpec, Spans
from orchestrator.settings import ModelRoute
from orchestrator.store import RunRef, Store
from orchestrator.truncation import Rule
from orchestrator.turn_record import UNANSWERED, Compaction, TurnRecord, places, spans


class Recorder:
    """One turn; ``record`` is what is known of it now. ``run`` is as ``StartTurn`` left it."""

    def __init__(self, store: Store, run: Run, spec: RunSpec, route: ModelRoute) -> None:
        self.record = TurnRecord(
            turn=run.turns,
            generation=run.generation,
            api=route.api,
            model=route.model or spec.model,
            tool_choice=spec.tool_choice,
            max_completion_tokens=spec.max_completion_tokens,
            max_output_tokens=route.max_output_tokens,
            server_uses=run.server_uses,
        )
        self._store = store
        self._run = run
        self._now = asyncio.get_running_loop().time
        self._began_s = self._asked_s = self._now()
        self._failed_before = 0

    @property
    def failed_here(self) -> int:
        """How many model calls of the turn have failed since this engine has it."""
        return len(self.record.failures) - self._failed_before

    async def take_over(self) -> None:
        """Take over what is known of the turn from engines that had it. Mostly none had."""
        if self._run.generation == self._run.turns + 1:
            return
        turns = await self._store.read_turns(RunRef(self._run.thread_id, self._run.id))
        for earlier in turns:
            if earlier.turn == self._run.turns:
                self._note(failures=earlier.failures, compactions=earlier.compactions)
                self._failed_before = len(earlier.failures)

    async def summarise(self, replaced: Spans) -> None:
        """A summary of these entries is about to be asked for. Raises ``StaleTurn``."""
        unanswered = Compaction(replaced=replaced, failure=UNANSWERED)
        self._note(compactions=(*self.record.compactions, unanswered))
        await self.keep()

    def summarised(self, done: Compaction) -> None:
        """What became of that."""
        self._note(compactions=(*self.record.compactions[:-1], done))

    def show(self, prompt: Prompt) -> None:
        """This is what the model is to be shown."""
        dropped: dict[str, list[int]] = defaultdict(list)
        for rule, group in prompt.cut.dropped:
            dropped[rule] += group.seqs
        for group in prompt.cut.kept:
            if group.replaces:
                dropped[Rule.COMPACT] += places(group.replaces)
        is_counted = prompt.counted_tokens is not None
        self._note(
            shown=spans(seq for group in prompt.cut.kept for seq in group.seqs),
            dropped={rule: spans(seqs) for rule, seqs in dropped.items()},
            limit_tokens=prompt.limit.tokens if prompt.limit and is_counted else None,
            counted_tokens=prompt.counted_tokens,
        )

    async def ask(self, request: TurnRequest, route: ModelRoute) -> None:
        """The model is about to be asked. Raises ``StaleTurn``: it must not be."""
        self._asked_s = self._now()
        self._note(
            api=route.api,
            model=route.model or request.spec.model,
            tool_choice=request.tool_choice,
            max_completion_tokens=request.max_completion_tokens,
            max_output_tokens=route.max_output_tokens,
            asked_ms=self._run.updated_ms + round((self._asked_s - self._began_s) * 1000),
            latency_ms=None,
            without=(),
            continuations=0,
        )
        await self.keep()

    async def leave_out(self, field: str) -> None:
        """The model is about to be asked again without this. Raises ``StaleTurn``."""
        self._note(without=(*self.record.without, field))
        await self.keep()

    async def go_on(self) -> None:
        """The model is about to be asked to go on with an answer that has paused. Raises
        ``StaleTurn``.
        """
        self._note(continuations=self.record.continuations + 1)
        await self.keep()

    def fail(self, error: ModelError) -> None:
        """The request has failed."""
        self._end()
        self._note(failures=(*self.record.failures, str(error)))

    def answer(self, reply: Reply) -> None:
        """The request was answered."""
        self._end()
        self._note(stop=reply.stop, usage=reply.usage)

    async def keep(self) -> None:
        """Store what is known, so that it is there whatever becomes of this engine and the run.
        Raises ``StaleTurn``: the turn is not ours any more.
        """
        run = self._run
        if not await self._store.keep_turn(RunRef(run.thread_id, run.id), self.record):
            raise StaleTurn(run.id, run.generation, run.status)

    def broken_off(self) -> TurnRecord | None:
        """What is known when the turn is given up; ``None``: the store knows as much, or more."""
        if self.record.asked_ms is None:
            return None
        if self.record.latency_ms is None:
            self._end()
        return self.record

    def _end(self) -> None:
        self._note(latency_ms=round((self._now() - self._asked_s) * 1000))

    def _note(self, **changes: object) -> None:
        self.record = self.record.but(**changes)
