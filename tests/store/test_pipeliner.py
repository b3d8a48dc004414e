"""Callers share pipelines and nothing else: no error, no cancellation, no wrong reply."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError

from orchestrator.errors import StoreUnavailable
from orchestrator.storage.embedded import find_free_port
from orchestrator.storage.pipelining import MAX_BATCH, MAX_UNDER_WAY, Pipeliner
from orchestrator.storage.scripts import DROP_DUE, SCRIPTS
from orchestrator.storage.valkey import connect
from tests.waiting import until


@pytest.fixture
async def client(redis_url: SecretStr) -> AsyncIterator[Redis]:
    client = connect(redis_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def pipeliner(client: Redis) -> AsyncIterator[Pipeliner]:
    pipeliner = Pipeliner(client, [script.text for script in SCRIPTS])
    yield pipeliner
    await pipeliner.close()


async def count(client: Redis, statistic: str) -> int:
    """A figure of the server's statistics."""
    return int((await client.info())[statistic])


async def test_each_caller_gets_the_reply_to_its_own_command(pipeliner: Pipeliner) -> None:
    replies = await asyncio.gather(*(pipeliner.call("ECHO", str(n)) for n in range(2_000)))
    assert replies == [str(n).encode() for n in range(2_000)]


async def test_calls_of_one_moment_are_read_together(client: Redis, pipeliner: Pipeliner) -> None:
    before = await count(client, "total_reads_processed")
    await asyncio.gather(*(pipeliner.call("INCR", "n") for _ in range(200)))
    reads = await count(client, "total_reads_processed") - before
    assert reads < 20
    assert await client.get("n") == b"200"


async def test_calls_that_come_while_pipelines_are_under_way_gather_for_the_next(
    client: Redis, pipeliner: Pipeliner
) -> None:
    before = await count(client, "total_connections_received")

    callers = []
    for _ in range(100):
        callers.append(asyncio.create_task(pipeliner.call("INCR", "n")))
        await asyncio.sleep(0)
    await asyncio.gather(*callers)

    assert await client.get("n") == b"100"
    assert await count(client, "total_connections_received") - before <= MAX_UNDER_WAY


async def test_a_group_is_executed_in_its_order_with_nothing_of_others_in_between(
    pipeliner: Pipeliner,
) -> None:
    async def one(name: str) -> list[Any]:
        return await pipeliner.group([("RPUSH", "all", name), ("RPUSH", "all", name)])

    await asyncio.gather(*(one(str(n)) for n in range(50)))
    pushed = await pipeliner.call("LRANGE", "all", 0, -1)
    assert pushed == [str(n).encode() for n in range(50) for _ in range(2)]


async def test_a_group_larger_than_a_pipeline_is_served(pipeliner: Pipeliner) -> None:
    replies = await pipeliner.group([("ECHO", str(n)) for n in range(2 * MAX_BATCH + 1)])
    assert replies == [str(n).encode() for n in range(2 * MAX_BATCH + 1)]
    assert await pipeliner.group([]) == []


async def test_the_error_of_one_command_is_its_callers_alone(pipeliner: Pipeliner) -> None:
    await pipeliner.call("SET", "text", "x")
    outcomes = await asyncio.gather(
        pipeliner.call("ECHO", "before"),
        pipeliner.call("HGETALL", "text"),
        pipeliner.call("ECHO", "after"),
        return_exceptions=True,
    )
    assert (outcomes[0], outcomes[2]) == (b"before", b"after")
    assert isinstance(outcomes[1], ResponseError)


async def test_a_refused_command_of_a_group_does_not_keep_the_others_from_being_executed(
    pipeliner: Pipeliner,
) -> None:
    with pytest.raises(ResponseError):
        await pipeliner.group([("SET", "a", "1"), ("HGETALL", "a"), ("SET", "b", "2")])
    assert await pipeliner.call("MGET", "a", "b") == [b"1", b"2"]


@pytest.mark.parametrize("argument", [None, object(), "\ud800"])
async def test_an_argument_that_cannot_be_sent_is_its_callers_alone(
    pipeliner: Pipeliner, argument: Any
) -> None:
    outcomes = await asyncio.gather(
        pipeliner.call("ECHO", "before"),
        pipeliner.call("ECHO", argument),
        pipeliner.call("ECHO", "after"),
        return_exceptions=True,
    )
    assert (outcomes[0], outcomes[2]) == (b"before", b"after")
    assert isinstance(outcomes[1], (TypeError, ValueError))


async def test_a_cancelled_caller_disturbs_nobody(client: Redis, pipeliner: Pipeliner) -> None:
    async def caller(number: int) -> bytes:
        reply: bytes = await pipeliner.call("ECHO", str(number))
        return reply

    tasks = [asyncio.create_task(caller(number)) for number in range(400)]
    for number, task in enumerate(tasks):
        if number % 3 == 0:
            task.cancel()
        if number % 50 == 0:
            await asyncio.sleep(0)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    for number, outcome in enumerate(outcomes):
        if not isinstance(outcome, asyncio.CancelledError):
            assert outcome == str(number).encode()
    assert sum(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes) <= 134
    assert await pipeliner.call("PING") == b"PONG"


async def test_what_is_cancelled_before_it_was_sent_is_not_sent(
    client: Redis, pipeliner: Pipeliner
) -> None:
    tasks = [asyncio.create_task(pipeliner.call("INCR", "n")) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await client.get("n") == b"2"


async def test_a_script_that_the_server_forgot_is_loaded_again(
    client: Redis, pipeliner: Pipeliner
) -> None:
    call = DROP_DUE.call(["timers"], ["a", 1])
    for _ in range(2):
        await client.script_flush()
        replies = await asyncio.gather(
            pipeliner.group([("ECHO", "a"), call, ("ECHO", "b")]), pipeliner.call(*call)
        )
        assert replies == [[b"a", 0, b"b"], 0]
    before = (await client.info("commandstats"))["cmdstat_script|load"]["calls"]
    await pipeliner.call(*call)
    assert (await client.info("commandstats"))["cmdstat_script|load"]["calls"] == before


async def test_a_script_that_nobody_has_is_an_error(pipeliner: Pipeliner) -> None:
    with pytest.raises(NoScriptError):
        await pipeliner.call("EVALSHA", "0" * 40, 0)


async def test_a_broken_connection_fails_what_it_carried_and_nothing_later(
    client: Redis, pipeliner: Pipeliner
) -> None:
    await pipeliner.call("PING")
    outcomes = await asyncio.gather(
        pipeliner.call("QUIT"),
        *(pipeliner.call("ECHO", "lost") for _ in range(5)),
        return_exceptions=True,
    )
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    assert await asyncio.gather(*(pipeliner.call("ECHO", "x") for _ in range(5))) == [b"x"] * 5


async def test_connections_that_were_closed_while_idle_are_replaced_unseen(
    client: Redis, pipeliner: Pipeliner
) -> None:
    await pipeliner.call("PING")
    await client.client_kill_filter(_type="normal", skipme=True)

    async def is_closed() -> bool:
        return len(await client.client_list(_type="normal")) == 1

    await until(is_closed)
    assert await pipeliner.call("PING") == b"PONG"


async def test_nobody_listening_is_the_store_being_unavailable() -> None:
    url = SecretStr(f"redis://:secret@127.0.0.1:{find_free_port()}/0")
    client = connect(url)
    with pytest.raises(StoreUnavailable, match="The store does not serve us") as raised:
        await Pipeliner(client).call("PING")
    assert "secret" not in str(raised.value)
    await client.aclose()


async def test_a_server_that_is_full_or_a_replica_is_unavailable_until_it_is_not(
    client: Redis, pipeliner: Pipeliner
) -> None:
    await client.replicaof("127.0.0.1", find_free_port())
    try:
        with pytest.raises(StoreUnavailable, match="read only"):
            await pipeliner.call("SET", "a", "1")
    finally:
        await client.replicaof("NO", "ONE")
    await client.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await pipeliner.call("SET", "a", "1")
    finally:
        await client.config_set("maxmemory", 0)
    assert await pipeliner.call("SET", "a", "1") == b"OK"
