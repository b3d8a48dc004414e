"""Keys: one slot for a thread, one declared kind for each, and no way to name another's."""

from collections import Counter

import pytest

from orchestrator.ids import mint
from orchestrator.storage.keys import META_KINDS, PARTITION_KINDS, Keys, Partition
from orchestrator.storage.valkey import ValkeyStore
from tests.leaks import kind_of, undeclared_keys


def test_threads_spread_over_all_partitions() -> None:
    keys = Keys("rs", 16)
    homes = Counter(keys.home(mint("thread")).number for _ in range(3_200))
    assert set(homes) == set(range(16))
    assert max(homes.values()) < 300


def test_a_thread_stays_in_its_partition() -> None:
    assert Keys("rs", 16).home("thread_1").number == 13
    assert Keys("rs", 1024).home("thread_1").number == 77


@pytest.mark.parametrize("partitions", [1, 16, 1024])
def test_all_keys_of_a_partition_have_its_tag(partitions: int) -> None:
    keys = Keys("rs", partitions)
    for partition in (keys.partitions[0], keys.partitions[-1]):
        tag = f"rs:{{p{partition.number:02d}}}:"
        assert all(key.startswith(tag) for key in all_keys(partition, "id_1"))


def test_every_key_is_of_a_kind_of_its_own_and_declared() -> None:
    keys = Keys("rs", 16)
    partition = all_keys(keys.partitions[3], "id_1")
    meta = [keys.layout, keys.assistants(), keys.assistant("a"), keys.deleted("a")]
    meta += [keys.receipt("a"), keys.assistants("library"), keys.deleted("a", "library")]
    meta += [keys.shapes, keys.slots("a")]
    meta += [keys.announced(kind, "a") for kind in ("tool", "engine", "worker")]
    meta += [keys.announcements(kind) for kind in ("tool", "engine", "worker")]
    assert {kind_of(key) for key in partition} == set(PARTITION_KINDS)
    assert {kind_of(key) for key in meta} == set(META_KINDS)
    assert len({*partition, *meta}) == len(PARTITION_KINDS) + len(META_KINDS)


@pytest.mark.parametrize("strange", ["1:log", "}:{p00}", ":", "runs", "1\n2", "ä"])
def test_a_strange_id_names_no_key_of_another(strange: str) -> None:
    partition = Keys("rs", 16).partitions[3]
    ordinary = set(all_keys(partition, "1"))
    named = set(all_keys(partition, strange))
    fixed = set(all_keys(partition, "2")) & ordinary
    assert ordinary & named == fixed


async def test_a_key_that_nobody_declared_is_seen(store: ValkeyStore) -> None:
    strays = {
        "rs:{p00}:stray": ("SET", "1"),  # no such kind
        "rs:{p00}:run:run_1": ("SET", "1"),  # another type
        "rs:{meta}:tool:look_up": ("SET", "1"),  # should expire
        "rs:{meta}:layout": ("SET", "1", "EX", 60),  # should not
        "rs:stray": ("SET", "1"),  # no tag
    }
    for key, (command, *rest) in strays.items():
        await store.pipeliner.call(command, key, *rest)
    assert sorted(await undeclared_keys(store._client, "rs")) == sorted(strays)
    await store.pipeliner.group(("DEL", key) for key in strays)


def all_keys(partition: Partition, object_id: str) -> list[str]:
    """Every key that a partition can name, with this id where one is wanted."""
    fixed = [
        partition.timers,
        partition.ready,
        partition.outbox,
        partition.threads(),
        partition.runs(),
        partition.threads("library"),
        partition.runs("library"),
        partition.active,
        partition.usage,
    ]
    named = (
        partition.usage_day,
        partition.thread,
        partition.entries,
        partition.messages,
        partition.deleted_messages,
        partition.deleted,
        partition.receipt,
        partition.reservation,
        partition.claim,
        partition.thread_runs,
        partition.run,
        partition.run_log,
        partition.run_turns,
        partition.run_outputs,
        partition.run_partial,
        partition.run_messages,
    )
    of_tenant = [partition.deleted(object_id, "library")]
    return fixed + of_tenant + [name(object_id) for name in named]
