"""Opening the store: its layout, its durability, and what is said when it cannot be opened."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from orchestrator.errors import StoreMismatch, StoreUnavailable
from orchestrator.settings import Settings
from orchestrator.storage.durability import Durability
from orchestrator.storage.embedded import find_binary, find_free_port
from orchestrator.storage.valkey import ValkeyStore, connect, open_store
from orchestrator.store import PageQuery, Store
from tests.store.samples import put_run
from tests.store.servers import serve

Open = Callable[..., Awaitable[ValkeyStore]]


@pytest.fixture
async def open_with(redis_url: SecretStr) -> AsyncIterator[Open]:
    """``open_store`` on an empty server, and the end of every store that it gave."""
    async with connect(redis_url) as client:
        await client.flushall()
    opened: list[ValkeyStore] = []

    async def open_one(url: SecretStr = redis_url, **settings: object) -> ValkeyStore:
        given = {"redis_url": url, **settings}
        opened.append(await open_store(Settings.model_validate(given)))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


async def test_the_store_is_what_the_protocol_says(open_with: Open) -> None:
    store: Store = await open_with()
    assert await store.now_ms() > 0


async def test_the_first_start_fixes_the_partitions(open_with: Open) -> None:
    ref = await put_run(await open_with(partitions=4))
    again = await open_with(partitions=4)
    assert (await again.view(ref)).run.id == ref.run_id
    with pytest.raises(StoreMismatch, match=r"with 4 partitions .* RUNSTATE_PARTITIONS=4"):
        await open_with(partitions=16)


async def test_installations_with_other_prefixes_do_not_meet(open_with: Open) -> None:
    one, other = await open_with(key_prefix="one"), await open_with(key_prefix="other")
    ref = await put_run(one)
    assert len((await one.recent_runs(PageQuery(10))).items) == 1
    assert (await other.recent_runs(PageQuery(10))).items == ()
    assert (await one.find_run(ref.run_id)) == ref


async def test_another_format_is_refused(open_with: Open) -> None:
    store = await open_with()
    await store.pipeliner.call("SET", store.keys.layout, '{"format": 99, "partitions": 16}')
    with pytest.raises(StoreMismatch, match="format 99"):
        await open_with()


async def test_options_in_the_url_do_not_change_how_replies_are_read(
    open_with: Open, redis_url: SecretStr
) -> None:
    plain = redis_url.get_secret_value()
    options = "decode_responses=true&protocol=3"
    url = SecretStr(plain + ("&" if "?" in plain else "?") + options)
    store = await open_with(url)
    ref = await put_run(store)
    assert (await store.view(ref)).run.id == ref.run_id


async def test_a_server_that_is_not_there_is_said(open_with: Open) -> None:
    with pytest.raises(StoreUnavailable):
        await open_with(SecretStr(f"redis://127.0.0.1:{find_free_port()}/0"))


async def test_a_wrong_password_is_said_but_not_shown(open_with: Open, tmp_path: Path) -> None:
    with serve(find_binary(), tmp_path, requirepass="right") as url:
        wrong = SecretStr(url.get_secret_value().replace("//", "//:wrong@"))
        with pytest.raises(StoreUnavailable, match="invalid") as raised:
            await open_with(wrong)
        assert "wrong" not in str(raised.value)


async def test_a_server_that_still_loads_its_data_is_waited_for(
    open_with: Open, tmp_path: Path
) -> None:
    with serve(find_binary(), tmp_path) as url:
        first = await open_with(url)
        for _ in range(30):
            ref = await put_run(first)
        await first.pipeliner.call("SAVE")
    slowly = {"key_load_delay": 5_000, "loading_process_events_interval_bytes": 1024}
    with serve(find_binary(), tmp_path, **slowly) as url:
        assert await is_loading(url)
        second = await open_with(url)
        assert (await second.view(ref)).run.id == ref.run_id


async def is_loading(url: SecretStr) -> bool:
    """Whether the server says that it has not read its data yet."""
    async with Redis.from_url(url.get_secret_value()) as client:
        return bool((await client.info("persistence"))["loading"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"appendonly": "yes", "appendfsync": "always"}, Durability("always")),
        ({"appendonly": "yes", "appendfsync": "everysec"}, Durability("everysec")),
        ({"appendonly": "yes", "appendfsync": "no"}, Durability("none", ("may forget",))),
        ({"appendonly": "no"}, Durability("none", ("may forget",))),
        (
            {"appendonly": "yes", "appendfsync": "always", "maxmemory_policy": "allkeys-lru"},
            Durability("always", (r"may evict state \(allkeys-lru\)",)),
        ),
        ({"rename_command": 'CONFIG ""'}, Durability("unknown", ("does not tell",))),
    ],
    ids=["always", "everysec", "no-fsync", "off", "evicting", "silent"],
)
async def test_the_durability_is_what_the_server_says(
    open_with: Open, tmp_path: Path, options: dict[str, str], expected: Durability
) -> None:
    with serve(find_binary(), tmp_path, **options) as url:
        found = await (await open_with(url)).durability()
    assert found.level == expected.level
    assert len(found.warnings) == len(expected.warnings)
    for warning, pattern in zip(found.warnings, expected.warnings, strict=True):
        assert re.search(pattern, warning)


async def test_a_store_that_is_closed_has_answered_what_was_asked(open_with: Open) -> None:
    store = await open_with()
    asked = [asyncio.create_task(store.now_ms()) for _ in range(50)]
    await asyncio.sleep(0)
    await store.close()
    assert all(now_ms > 0 for now_ms in await asyncio.gather(*asked))
