"""``runstate runs``: the newest runs, and everything about one of them."""

from typing import Any

from cli.client import Client
from cli.terminal import moment, one_line, print_table, printable
from cli.timeline import began_ms, timeline

COLUMNS = ("run", "status", "created", "took", "model", "turns", "calls", "thread")


async def list_runs(client: Client, limit: int) -> None:
    """Prints the newest runs, one line each."""
    async with client:
        answer = await client.get("/ops/runs", limit=limit)
    print_table(COLUMNS, [_row(run) for run in answer["data"]])


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
    if run["last_error"]:
        print(f"error    {run['last_error']['code']}: {printable(run['last_error']['message'])}")
    if run["usage"]:
        print(f"tokens   {run['usage']['prompt_tokens']} + {run['usage']['completion_tokens']}")
    for queue in report["unserved"]:
        print(f"waits    for a worker: none that is alive serves the queue {queue}")
    print()
    for happening in timeline(report):
        print(happening.line(began_ms(report)))


def _row(run: dict[str, Any]) -> tuple[str, ...]:
    ended_at, calls = run["ended_at"], run["calls"]
    return (
        run["id"],
        _status(run["status"], run["internal_status"]),
        moment(run["created_at"]),
        "-" if ended_at is None else f"{ended_at - run['created_at']} s",
        one_line(run["model"], 40),
        str(run["turns"]),
        f"{calls['settled']}/{calls['settled'] + calls['open']}",
        run["thread_id"],
    )


def _status(public: str, internal: str) -> str:
    return public if public == internal else f"{public} (inside: {internal})"
