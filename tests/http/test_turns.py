"""What clients can read of model turns."""

import httpx2
from openai.types.beta.threads import Run

from orchestrator.commands import StartTurn, TurnFailed
from orchestrator.shell import change_run
from orchestrator.store import RunRef, Store
from tests.unit.test_turn_record import RECORD


async def failed_turn(store: Store, run: Run) -> str:
    """The path of the run's turns, after one that failed."""
    ref = RunRef(run.thread_id, run.id)
    await change_run(store, ref, StartTurn("engine-1", 10_000))
    record = RECORD.but(shown=(), dropped={"last_messages": ((0, 3),)}, failures=("busy",))
    await change_run(store, ref, TurnFailed(1, "server_error", "It broke.", record=record))
    return f"/v1/threads/{run.thread_id}/runs/{run.id}/turns"


async def test_turns_are_listed_with_what_was_left_out_and_by_which_rule(
    http: httpx2.AsyncClient, store: Store, run: Run
) -> None:
    listed = (await http.get(await failed_turn(store, run))).json()
    assert listed["object"] == "list"
    (turn,) = listed["data"]
    assert (turn["turn"], turn["dropped"]) == (0, {"last_messages": [[0, 3]]})
    assert (turn["failures"], turn["stop"]) == (["busy"], None)


async def test_one_turn_is_shown_with_the_request_that_was_sent(
    http: httpx2.AsyncClient, store: Store, run: Run
) -> None:
    turn = (await http.get(f"{await failed_turn(store, run)}/0")).json()
    assert turn["request"]["model"] == "gpt-x"
    assert turn["request"]["stream"] is True
    assert turn["groups"] == []


async def test_a_turn_that_never_was_is_not_found(
    http: httpx2.AsyncClient, store: Store, run: Run
) -> None:
    path = await failed_turn(store, run)
    assert (await http.get(f"{path}/1")).status_code == 404
    assert (await http.get("/v1/threads/thread_x/runs/run_x/turns")).status_code == 404
