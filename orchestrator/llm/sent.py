"""The request of a recorded turn as its provider got it, made again from what is stored. Pure."""

from collections.abc import Iterable

from orchestrator.conversation import build, grouped
from orchestrator.llm.chat_request import chat_request
from orchestrator.llm.messages_request import messages_request
from orchestrator.llm.protocol import TurnRequest
from orchestrator.llm.tokens import weight
from orchestrator.records import Entry, Json, RunSpec
from orchestrator.server_tools import with_uses_left
from orchestrator.turn_record import TurnRecord, is_within


def request_body(record: TurnRecord, run_id: str, spec: RunSpec, entries: Iterable[Entry]) -> Json:
    """Without headers, and so without the key. Models that play scripts are shown as chat ones."""
    request = TurnRequest(
        run_id=run_id,
        spec=spec.but(
            model=record.model,
            tools=with_uses_left(spec.tools, record.server_uses),
            **dict.fromkeys(record.without),
        ),
        conversation=build(spec.instructions, grouped(shown_entries(record, entries)), run_id),
        turn=record.turn,
        failed_attempts=0,
        tool_choice=record.tool_choice,
        max_completion_tokens=record.max_completion_tokens,
    )
    if record.api == "anthropic":
        return messages_request(request, record.max_output_tokens)
    return chat_request(request)


def shown_entries(record: TurnRecord, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Those that the turn was shown and that are still there. What came later is not."""
    return tuple(entry for entry in entries if is_within(entry.seq, record.shown))


def weights(record: TurnRecord, entries: Iterable[Entry]) -> list[Json]:
    """For each group that was shown: its places and how much it weighs."""
    found = []
    for group in grouped(shown_entries(record, entries)):
        count = weight(record.model, group.items)
        found.append(
            {"entries": list(group.seqs), "tokens": count.tokens, "is_exact": count.is_exact}
        )
    return found
