"""Processes and tools are forgotten when nobody repeats them."""

from orchestrator.records import ToolSpec
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import Presence
from tests.waiting import until

LONG_MS = 60_000


async def test_a_heartbeat_makes_a_process_present(store: ValkeyStore) -> None:
    await store.beat(Presence("worker", "w 1:ä", {"queue": "tools"}), LONG_MS)
    (worker,) = await store.present("worker")
    assert (worker.id, worker.info) == ("w 1:ä", {"queue": "tools"})
    assert await store.present("engine") == ()


async def test_a_later_heartbeat_replaces_an_earlier_one(store: ValkeyStore) -> None:
    await store.beat(Presence("engine", "e1", {"turns": "1"}), LONG_MS)
    await store.beat(Presence("engine", "e1", {"turns": "2"}), LONG_MS)
    assert [engine.info for engine in await store.present("engine")] == [{"turns": "2"}]


async def test_a_process_that_is_silent_is_forgotten(store: ValkeyStore) -> None:
    await store.beat(Presence("engine", "e1"), 50)
    await store.beat(Presence("engine", "e2"), LONG_MS)

    async def one_is_left() -> bool:
        return [engine.id for engine in await store.present("engine")] == ["e2"]

    await until(one_is_left)
    await store.beat(Presence("engine", "e2"), LONG_MS)
    names = store.keys.announcements("engine")
    assert await store.pipeliner.call("ZCARD", names) == 1


async def test_a_process_that_leaves_is_gone_at_once(store: ValkeyStore) -> None:
    await store.beat(Presence("engine", "e1"), LONG_MS)
    await store.leave("engine", "e1")
    await store.leave("engine", "e1")
    assert await store.present("engine") == ()


async def test_tools_are_read_all_or_by_name(store: ValkeyStore) -> None:
    tools = [ToolSpec(name=name, queue="io") for name in ("b", "a", "c")]
    await store.publish_tools(tools, ttl_s=60)
    assert await store.tools() == {tool.name: tool for tool in tools}
    assert await store.tools(["c", "unknown"]) == {"c": tools[2]}
    assert await store.tools([]) == {}


async def test_a_tool_is_forgotten_with_its_last_publication(store: ValkeyStore) -> None:
    await store.publish_tools([ToolSpec(name="short")], ttl_s=1)
    await store.publish_tools([ToolSpec(name="long")], ttl_s=60)

    async def one_is_left() -> bool:
        return set(await store.tools()) == {"long"} == set(await store.tools(["short", "long"]))

    await until(one_is_left)


async def test_a_tool_that_is_published_again_is_the_new_one(store: ValkeyStore) -> None:
    await store.publish_tools([ToolSpec(name="a", timeout_s=1)], ttl_s=60)
    await store.publish_tools([ToolSpec(name="a", timeout_s=2)], ttl_s=60)
    assert (await store.tools())["a"].timeout_s == 2


async def test_the_shape_of_an_output_is_swapped_for_the_one_before(store: ValkeyStore) -> None:
    assert await store.swap_shape("a", "{x: text}") is None
    assert await store.swap_shape("a", "text") == "{x: text}"
    assert await store.swap_shape("b", "text") is None
    assert await store.swap_shape("a", "text") == "text"
