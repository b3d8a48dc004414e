"""What is written down of a turn while it is played: how it was asked, failed and answered."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from orchestrator.engine.prompt import Prompt
from orchestrator.llm.protocol import Reply, TurnRequest
from orchestrator.records import Run
from orchestrator.settings import ModelRoute
from orchestrator.truncation import Rule
from orchestrator.turn_record import Compaction, TurnRecord, places, spans


class Recorder:
    """One turn. ``now`` is a clock that only goes forward, in seconds; ``earlier`` is the record of
    an engine that has handed the turn back.
    """

    def __init__(
        self,
        run: Run,
        shown: Prompt,
        now: Callable[[], float],
        compactions: Sequence[Compaction] = (),
        earlier: TurnRecord | None = None,
    ) -> None:
        self.errors: list[str] = []
        self._failures = earlier.failures if earlier else ()
        self._compactions = (*(earlier.compactions if earlier else ()), *compactions)
        self._run = run
        self._shown = shown
        self._now = now
        self._began_s = self._asked_s = now()

    @property
    def failures(self) -> int:
        """How many model calls of the turn have failed, whichever engine made them."""
        return len(self._failures) + len(self.errors)

    def ask(self) -> None:
        """A request is made."""
        self._asked_s = self._now()

    def record(
        self, request: TurnRequest, route: ModelRoute, reply: Reply | None = None
    ) -> TurnRecord:
        """The whole turn, after its last request. The run was last changed when the turn began."""
        run, limit = self._run, self._shown.limit
        dropped: dict[str, list[int]] = defaultdict(list)
        for rule, group in self._shown.cut.dropped:
            dropped[rule] += group.seqs
        for group in self._shown.cut.kept:
            if group.replaces:
                dropped[Rule.COMPACT] += places(group.replaces)
        is_counted = self._shown.counted_tokens is not None
        return TurnRecord(
            turn=run.turns,
            generation=run.generation,
            api=route.api,
            model=route.model or request.spec.model,
            tool_choice=request.tool_choice,
            max_completion_tokens=request.max_completion_tokens,
            max_output_tokens=route.max_output_tokens,
            shown=spans(seq for group in self._shown.cut.kept for seq in group.seqs),
            dropped={rule: spans(seqs) for rule, seqs in dropped.items()},
            limit_tokens=limit.tokens if limit and is_counted else None,
            counted_tokens=self._shown.counted_tokens,
            asked_ms=run.updated_ms + round((self._asked_s - self._began_s) * 1000),
            latency_ms=round((self._now() - self._asked_s) * 1000),
            failures=(*self._failures, *self.errors),
            compactions=self._compactions,
            server_uses=run.server_uses,
            without=reply.without if reply else (),
            stop=reply.stop if reply else None,
            usage=reply.usage if reply else None,
        )
