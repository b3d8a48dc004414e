"""What was before a stored run when its model was first asked: a replay begins with that. Pure."""

from collections.abc import Iterable, Sequence

from orchestrator.errors import CannotReplay
from orchestrator.records import Entry, Run, Summary
from orchestrator.turn_record import TurnRecord, places


def past(run: Run, turns: Sequence[TurnRecord], entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The transcript up to there, without what the run itself has added, but for summaries, which
    are not written again; what the run was not shown is in it, since another model or prompt may
    be. Raises ``CannotReplay``.
    """
    if not run.is_final:
        raise CannotReplay(run.id, "it has not ended")
    if not turns or turns[0].turn != 0 or not turns[0].has_prompt:
        raise CannotReplay(run.id, "no model was asked")
    known = (turns[0].shown, *turns[0].dropped.values())
    last = max((place for spans in known for _, place in spans), default=-1)
    before = tuple(entry for entry in entries if entry.seq <= last)
    if set(places(turns[0].shown)) - {entry.seq for entry in before}:
        raise CannotReplay(run.id, "some of what its model was shown has been deleted")
    return tuple(x for x in before if x.run_id != run.id or isinstance(x, Summary))
