"""``runstate usage``: what was used and what it cost."""

from typing import Any

from cli.client import Client
from cli.terminal import print_table
from orchestrator.story.words import counted

COLUMNS = ("turns", "prompt", "cached", "answers", "cost", "")


async def show_usage(client: Client, by: str, first: str | None, last: str | None) -> None:
    """Prints the sums of each tenant, model or day, and of all."""
    days = {name: day for name, day in (("from", first), ("to", last)) if day}
    async with client:
        report = await client.get("/ops/usage", by=by, **days)
    rows = [_row(row["name"], row) for row in report["data"]]
    title = f"{by}, {report['from']} to {report['to']}"
    print_table((title, *COLUMNS), [*rows, _row("all", report["total"])])


def _row(name: str, sums: dict[str, Any]) -> tuple[str, ...]:
    cost = "unknown" if sums["cost_usd"] is None else f"${sums['cost_usd']:.6f}"
    return (
        name,
        str(sums["turns"]),
        str(sums["prompt_tokens"]),
        str(sums["cached_tokens"]),
        str(sums["completion_tokens"]),
        cost,
        unknown(sums),
    )


def unknown(sums: dict[str, Any]) -> str:
    """What the figures leave out, in words."""
    parts = []
    if sums["unpriced_turns"] and sums["cost_usd"] is not None:
        parts.append(f"{counted(sums['unpriced_turns'], 'turn')} of unknown cost")
    if sums["uncounted_turns"]:
        parts.append(f"{sums['uncounted_turns']} of unknown tokens")
    return "and " + ", ".join(parts) if parts else ""
