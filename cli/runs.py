"""``runstate runs``: the newest runs, and everything about one of them."""

from typing import Any

from cli.client import Client
from cli.terminal import duration, moment, one_line, print_table, printable
from cli.timeline import timeline

COLUMNS = ("run", "status", "created", "took", "model", "turns", "calls", "thread")


async def list_runs(client: Client, limit: int, status: str | None, thread: str | None) -> None:
    """Prints the newest runs, one line each: all, or those of a status or a thread."""
    filters = {"status": status, "thread_id": thread}
    wanted = {name: value for name, value in filters.items() if value}
    async with client:
        answer = await client.get("/ops/runs", limit=limit, **wanted)
    print_table(COLUMNS, [_row(run) for run in answer["data"]])


async def say_why(client: Client, run_id: str) -> None:
    """Prints how the run is, and why."""
    async with client:
        report = await client.get(f"/ops/runs/{run_id}")
    status = _status(report["run"]["status"], report["internal_status"])
    print(f"{status}: {printable(report['why'])}")


async def show_run(client: Client, run_id: str) -> None:
    """Prints how the run is and how it got there."""
    async with client:
        report = await client.get(f"/ops/runs/{run_id}")
    run = report["run"]
    print(f"run      {run['id']}")
    print(f"thread   {run['thread_id']}")
    print(f"status   {_status(run['status'], report['internal_status'])}")
    print(f"model    {printable(run['model'])}")
    print(f"created  {moment(run['created_at'])}")
    if run["expires_at"] is not None:
        print(f"expires  {moment(run['expires_at'])}")
    print(f"why      {printable(report['why'])}")
    if usage := run["usage"]:
        cost = "" if usage["cost_usd"] is None else f", ${usage['cost_usd']:.6f}"
        print(f"tokens   {usage['prompt_tokens']} + {usage['completion_tokens']}{cost}")
    print()
    for line in timeline(report):
        print(line)


def _row(run: dict[str, Any]) -> tuple[str, ...]:
    took_ms, calls = run["took_ms"], run["calls"]
    return (
        run["id"],
        _status(run["status"], run["internal_status"]),
        moment(run["created_at"]),
        duration(None if took_ms is None else took_ms / 1000),
        one_line(run["model"], 40),
        str(run["turns"]),
        f"{calls['settled']}/{calls['settled'] + calls['open']}",
        run["thread_id"],
    )


def _status(public: str, internal: str) -> str:
    return public if public == internal else f"{public} (inside: {internal})"
