"""A store that a tenant sees: what is another's is not there, and what is made is the tenant's."""

from collections.abc import Awaitable, Callable

import pytest

from orchestrator.commands import CreateRun, IfBusy
from orchestrator.errors import NotFound, OperatorsOnly
from orchestrator.ids import mint
from orchestrator.records import EVERYBODY, Assistant, Thread
from orchestrator.shell import change_thread, create_thread
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import PageQuery, RunRef, Store
from tests.store.samples import SPEC, delete_thread, put_run, put_thread

ASSISTANT = Assistant(id="asst_1", created_ms=5, model="m")

NEWEST = PageQuery()


async def test_what_is_made_belongs_to_the_tenant(store: ValkeyStore) -> None:
    library, shop = store.seen_by("library"), store.seen_by("shop")
    thread = await put_thread(library)
    await library.put_assistant(ASSISTANT)
    assert thread.tenant == "library"
    assert (await store.get_assistant("asst_1")).tenant == "library"
    for seen, are_there in ((store, True), (library, True), (shop, False)):
        assert bool((await seen.list_threads(NEWEST)).items) is are_there
        assert bool((await seen.list_assistants(NEWEST)).items) is are_there


READS: dict[str, Callable[[Store, RunRef], Awaitable[object]]] = {
    "load": lambda store, ref: store.load(ref.thread_id),
    "load a run": lambda store, ref: store.load(ref.thread_id, ref.run_id),
    "load the active run": lambda store, ref: store.load_active(ref.thread_id),
    "view": lambda store, ref: store.view(ref),
    "find": lambda store, ref: store.find_run(ref.run_id),
    "get a message": lambda store, ref: store.get_message(ref.thread_id, "msg_x"),
    "modify the thread": lambda store, ref: store.modify_thread(ref.thread_id, {}),
    "modify a message": lambda store, ref: store.modify_message(ref.thread_id, "msg_x", {}),
    "delete a message": lambda store, ref: store.delete_message(ref.thread_id, "msg_x"),
}


@pytest.mark.parametrize("read", READS)
async def test_what_is_anothers_is_as_unknown_as_what_is_nobodys(
    store: ValkeyStore, read: str
) -> None:
    library, shop = store.seen_by("library"), store.seen_by("shop")
    thread = await put_thread(library)
    ref = await put_run(library, thread.id)
    for unknown in (ref, RunRef("thread_x", "run_x")):
        with pytest.raises(NotFound) as refused:
            await READS[read](shop, unknown)
        assert refused.value.object_id in {unknown.thread_id, unknown.run_id}
        assert refused.value.kind == ("run" if read == "find" else "thread")


async def test_runs_are_listed_to_their_own_tenant_and_to_the_operator(store: ValkeyStore) -> None:
    library = store.seen_by("library")
    thread = Thread(id=mint("thread"), created_ms=0)
    await create_thread(library, thread, CreateRun(mint("run"), SPEC, ttl_ms=60_000))
    waiting = CreateRun(mint("run"), SPEC, ttl_ms=60_000, if_busy=IfBusy.ENQUEUE)
    await change_thread(library, thread.id, waiting)
    for seen, count in ((store, 2), (library, 2), (store.seen_by("shop"), 0)):
        assert len((await seen.recent_runs(NEWEST)).items) == count
    assert (await library.find_run(waiting.run_id)) == RunRef(thread.id, waiting.run_id)
    await delete_thread(library, thread.id)
    assert (await library.recent_runs(NEWEST)).items == ()


async def test_what_is_everybodys_is_seen_by_all_and_changed_by_the_operator(
    store: ValkeyStore,
) -> None:
    await store.put_assistant(ASSISTANT.but(tenant=EVERYBODY))
    library = store.seen_by("library")
    assert (await library.get_assistant("asst_1")).tenant == EVERYBODY
    assert len((await library.list_assistants(NEWEST)).items) == 1
    with pytest.raises(OperatorsOnly, match="asst_1"):
        await library.modify_assistant("asst_1", {"name": "Mine"})
    with pytest.raises(OperatorsOnly):
        await library.delete_assistant("asst_1")


async def test_an_assistant_that_becomes_everybodys_is_listed_once(store: ValkeyStore) -> None:
    library = store.seen_by("library")
    await library.put_assistant(ASSISTANT)
    await store.modify_assistant("asst_1", {"tenant": EVERYBODY})
    for seen in (store, library, store.seen_by("shop")):
        assert [found.id for found in (await seen.list_assistants(NEWEST)).items] == ["asst_1"]
