"""What an answered model call is charged to: its run, its thread, and the sums of its tenant."""

from orchestrator.decide.draft import Draft
from orchestrator.decisions import CountUsage
from orchestrator.records import Usage, tally_of_turn


def charge(draft: Draft, usage: Usage | None) -> None:
    """Count the call everywhere; nothing else counts. ``None``: the provider named no tokens."""
    before, spec = draft.run.usage, draft.spec
    tally = tally_of_turn(usage, before, spec.price)
    draft.set_run(usage=before.plus(usage) if before else usage)
    draft.set_thread(spent=draft.aggregate.thread.spent.plus(tally))
    draft.ask(CountUsage(spec.tenant, spec.model, draft.now_ms, tally))
