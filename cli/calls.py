"""``runstate calls``: the tool calls of a run, and an operator's word on one of them."""

import json
import sys
from typing import Any

from cli.client import Client
from cli.failure import Failure
from cli.terminal import one_line, print_table, printable

COLUMNS = ("call", "tool", "state", "attempts", "worker", "error")


async def list_calls(client: Client, run_id: str) -> None:
    """Prints the ledger of a run."""
    async with client:
        calls = (await client.get(f"/ops/runs/{run_id}"))["calls"]
    print_table(COLUMNS, [_row(call) for call in calls])


async def show_call(client: Client, run_id: str, call_id: str) -> None:
    """Prints everything about a call, the whole output included; a traceback once more in lines, on
    stderr.
    """
    async with client:
        call = await client.get(await _path(client, run_id, call_id))
    print(printable(json.dumps(call, indent=2, ensure_ascii=False)))
    if "\n" in (error := call["error"] or ""):
        print(printable(error), file=sys.stderr)


async def act_on_call(
    client: Client, run_id: str, call_id: str, verb: str, body: dict[str, Any]
) -> None:
    """Does it, and prints how the call is then."""
    async with client:
        call = await client.post(f"{await _path(client, run_id, call_id)}/{verb}", body)
    print(f"{call['id']} is {call['state']}.")
    if "warning" in call:
        print(call["warning"])


def edited(arguments: str | None) -> dict[str, Any]:
    """The body of an approval with these arguments. Raises ``Failure`` if they are not JSON."""
    if arguments is None:
        return {}
    try:
        return {"arguments": json.loads(arguments)}
    except ValueError as error:
        raise Failure(f"--arguments is not JSON: {error}.") from None


async def _path(client: Client, run_id: str, call_id: str) -> str:
    report = await client.get(f"/ops/runs/{run_id}")
    if all(call["id"] != call_id for call in report["calls"]):
        raise Failure(f"{run_id} has no tool call {call_id}: see `runstate calls list {run_id}`.")
    return f"/v1/threads/{report['run']['thread_id']}/runs/{run_id}/tool_calls/{call_id}"


def _row(call: dict[str, Any]) -> tuple[str, ...]:
    return (
        call["id"],
        one_line(call["name"], 40),
        call["state"],
        str(call["attempts"]),
        call["worker"] or "-",
        one_line((call["error"] or "-").splitlines()[0], 60),
    )
