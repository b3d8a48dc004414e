"""``runstate queues``: what waits on each queue, and what each worker does."""

from typing import Any

from cli.client import Client
from cli.terminal import duration, print_table


async def list_queues(client: Client) -> None:
    """Prints the queues, and below them their workers."""
    async with client:
        report = await client.get("/ops/queues")
    queues = report["data"]
    print_table(
        ("queue", "waiting", "oldest", "running", "workers"),
        [
            (
                queue["name"],
                str(queue["depth"]),
                duration(queue["oldest_age_s"]),
                str(queue["started"]),
                str(len(queue["workers"])),
            )
            for queue in queues
        ],
    )
    rows = [_row(queue["name"], worker) for queue in queues for worker in queue["workers"]]
    if rows:
        print()
        print_table(("worker", "queue", "state", "call", "since"), rows)
    for name in report["unserved"]:
        print(f"\nCalls wait on the queue {name}, and no live worker serves it.")


def _row(queue: str, worker: dict[str, Any]) -> tuple[str, ...]:
    return (
        worker["name"],
        queue,
        worker["state"],
        worker["call_id"] or "-",
        duration(worker["busy_s"]),
    )
