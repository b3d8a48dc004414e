"""What is written down of a turn while it is played: how it was asked, failed and answered."""

from collections import defaultdict
from collections.abc import Callable

from orchestrator.engine.prompt import Prompt
from orchestrator.llm.protocol import Reply, TurnRequest
from orchestrator.records import Run
from orchestrator.settings import ModelRoute
from orchestrator.turn_record import TurnRecord, spans


class Recorder:
    """One turn. ``now`` is a clock that only goes forward, in seconds."""

    def __init__(self, run: Run, shown: Prompt, now: Callable[[], float]) -> None:
        self.errors: list[str] = []
        self._run = run
        self._shown = shown
        self._now = now
        self._began_s = self._asked_s = now()

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
            failures=tuple(self.errors),
            stop=reply.stop if reply else None,
            usage=reply.usage if reply else None,
        )
