"""The key of a worker without a store: what it opens, and that repetitions count once."""

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx2
import pytest
from pydantic import SecretStr

from orchestrator.commands import CallLost, CallProgress, CallResult, ClaimCall, Outcome, RetryCall
from orchestrator.errors import CallNotOpen, NotFound, StoreMismatch, StoreUnavailable
from orchestrator.ledger import CallCommand
from orchestrator.records import CallState, ToolSpec
from orchestrator.settings import Settings
from orchestrator.store import Presence, Store
from tests.http.conftest import serve
from tests.workers.hosts import KEY, NARROW, WORKER_KEYS
from tests.workers.scene import Scene
from workers.remote import RemoteLedger

LEASE_MS = 10_000
CLIENT_KEY = "a-key-of-clients"


@pytest.fixture
async def address(store: Store, redis_url: SecretStr) -> AsyncIterator[str]:
    async def connect() -> Store:
        return store

    given = {"redis_url": redis_url, "api_keys": CLIENT_KEY, "worker_keys": WORKER_KEYS}
    async with serve(Settings.model_validate(given), connect) as address:
        yield address


@pytest.fixture
async def wide(address: str) -> AsyncIterator[RemoteLedger]:
    """With a key for all tools."""
    ledger = RemoteLedger(address, KEY)
    yield ledger
    await ledger.close()


@pytest.fixture
async def narrow(address: str) -> AsyncIterator[RemoteLedger]:
    """With a key for one tool, ``fail``."""
    ledger = RemoteLedger(address, NARROW)
    yield ledger
    await ledger.close()


def presence(name: str = "worker_1", queue: str = "tools") -> Presence:
    return Presence("worker", name, {"queue": queue, "host": "far-away", "pid": "7"})


async def test_a_claim_alone_gives_the_arguments(scene: Scene, narrow: RemoteLedger) -> None:
    asked = await scene.ask("fail", message="secret")
    assert (await narrow.find(asked.ref, asked.id)).call.arguments == ""
    call = await narrow.change(asked.ref, ClaimCall(asked.id, "worker_1", LEASE_MS, "n"))
    assert call.arguments == '{"message": "secret"}'
    told = await narrow.change(asked.ref, CallProgress(asked.id, call.generation, "half"))
    assert (told.progress, told.arguments) == ("half", "")


async def test_a_claim_and_a_result_that_are_repeated_count_once(
    scene: Scene, wide: RemoteLedger
) -> None:
    asked = await scene.ask("add", a=1, b=2)
    claim = ClaimCall(asked.id, "worker_1", LEASE_MS, nonce="first")
    first, second = [await wide.change(asked.ref, claim) for _ in range(2)]
    assert first == second
    with pytest.raises(CallNotOpen):
        await wide.change(asked.ref, ClaimCall(asked.id, "worker_1", LEASE_MS, nonce="second"))
    result = CallResult(asked.id, first.generation, Outcome.SUCCEEDED, "3")
    for _ in range(2):
        await wide.change(asked.ref, result)
    call = await asked.now()
    assert (call.state, call.generation, call.late) == (CallState.SUCCEEDED, 1, ())


@pytest.mark.parametrize(
    "command",
    [
        ClaimCall("", "worker_1", LEASE_MS, "n"),
        CallResult("", 1, Outcome.SUCCEEDED, "forged"),
        RetryCall("", 1, "forged", "forged"),
        CallLost("", 1, "forged"),
        CallProgress("", 1, "forged"),
    ],
)
async def test_calls_of_other_tools_do_not_exist_for_a_key(
    scene: Scene, narrow: RemoteLedger, command: CallCommand
) -> None:
    asked = await scene.ask("add", a=1, b=2)
    before = await asked.now()
    with pytest.raises(NotFound):
        await narrow.change(asked.ref, replace(command, call_id=asked.id))
    with pytest.raises(NotFound):
        await narrow.find(asked.ref, asked.id)
    assert not await narrow.renew(asked.ref, before, LEASE_MS, LEASE_MS)
    assert await asked.now() == before


async def test_a_lease_is_kept_under_its_generation(scene: Scene, wide: RemoteLedger) -> None:
    asked = await scene.ask("add", a=1, b=2)
    call = await wide.change(asked.ref, ClaimCall(asked.id, "worker_1", LEASE_MS, "n"))
    cap_ms = (call.deadline_ms or 0) + LEASE_MS
    assert await wide.renew(asked.ref, call, LEASE_MS, cap_ms)
    assert not await wide.renew(asked.ref, call.but(generation=7), LEASE_MS, cap_ms)


async def test_a_key_publishes_and_speaks_for_its_own_tools_only(
    scene: Scene, narrow: RemoteLedger
) -> None:
    await narrow.announce(presence(), 15_000, [ToolSpec(name="fail")], 60)
    assert set(await scene.store.tools()) == {"fail"}
    assert await narrow.swap_shape("fail", "str") is None
    assert await narrow.swap_shape("fail", "int") == "str"
    with pytest.raises(StoreUnavailable):
        await narrow.announce(presence(), 15_000, [ToolSpec(name="add")], 60)
    with pytest.raises(StoreUnavailable):
        await narrow.announce(presence(queue="others"), 15_000, [ToolSpec(name="fail")], 60)
    with pytest.raises(StoreUnavailable):
        await narrow.swap_shape("add", "str")
    with pytest.raises(StoreUnavailable):
        await narrow.take_slot("add", "worker_1", 1, LEASE_MS)
    with pytest.raises(StoreUnavailable):
        await narrow.free_slot("add", "worker_1")


async def test_a_key_does_not_speak_for_the_workers_of_another(
    scene: Scene, narrow: RemoteLedger, wide: RemoteLedger
) -> None:
    await wide.announce(presence(), 15_000, [ToolSpec(name="add")], 60)
    with pytest.raises(StoreUnavailable):
        await narrow.leave("worker_1")
    with pytest.raises(StoreUnavailable):
        await narrow.announce(presence(), 15_000, [ToolSpec(name="fail")], 60)
    assert [worker.id for worker in await scene.store.present("worker")] == ["worker_1"]
    await wide.leave("worker_1")
    assert await scene.store.present("worker") == ()


async def test_slots_are_taken_and_given_back(wide: RemoteLedger) -> None:
    assert await wide.take_slot("hold_a_slot", "one", 1, LEASE_MS)
    assert not await wide.take_slot("hold_a_slot", "other", 1, LEASE_MS)
    await wide.free_slot("hold_a_slot", "one")
    assert await wide.take_slot("hold_a_slot", "other", 1, LEASE_MS)


async def test_a_worker_is_told_at_its_start_what_its_key_lacks(
    address: str, narrow: RemoteLedger, wide: RemoteLedger
) -> None:
    await wide.check(["add", "fail"])
    await narrow.check(["fail"])
    with pytest.raises(StoreMismatch, match="does not serve add"):
        await narrow.check(["add", "fail"])
    stranger = RemoteLedger(address, "a-key-of-nobody")
    with pytest.raises(StoreMismatch, match="refuses the key"):
        await stranger.check(["fail"])
    await stranger.close()


async def test_each_kind_of_key_opens_its_own_rooms_only(address: str) -> None:
    async def status(path: str, key: str) -> int:
        async with httpx2.AsyncClient(base_url=address) as http:
            given = {"authorization": f"Bearer {key}"}
            return (await http.get(path, headers=given)).status_code

    for path in ("/v1/assistants", "/ops/runs"):
        assert (await status(path, CLIENT_KEY), await status(path, KEY)) == (200, 401)
    assert (await status("/workers/key", KEY), await status("/workers/key", CLIENT_KEY)) == (
        200,
        401,
    )


async def test_an_answer_of_somebody_else_is_no_answer(scene: Scene, address: str) -> None:
    """A proxy that knows no such page must not make a worker think that its call is gone."""
    asked = await scene.ask("add", a=1, b=2)
    lost = RemoteLedger(f"{address}/v1", KEY)
    with pytest.raises(StoreUnavailable):
        await lost.find(asked.ref, asked.id)
    await lost.close()
    nobody = RemoteLedger("http://127.0.0.1:1", KEY)
    with pytest.raises(StoreUnavailable):
        await nobody.find(asked.ref, asked.id)
    await nobody.close()
