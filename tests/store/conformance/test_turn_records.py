"""What a turn is sent is written under its lease, and read in the order of the turns."""

from orchestrator.decisions import ClearTimer, KeepTurn, SetTimer, TimerKey, TimerKind
from orchestrator.storage.valkey import ValkeyStore
from tests.store.conformance.test_speech import FAR_MS, LEASE, speaking_run
from tests.store.samples import change
from tests.unit.test_turn_record import RECORD


async def test_what_is_known_of_a_turn_takes_the_place_of_what_was(store: ValkeyStore) -> None:
    ref = await speaking_run(store)
    later = RECORD.but(turn=1, failures=("busy",))
    assert await store.keep_turn(ref, RECORD.but(turn=1))
    assert await store.keep_turn(ref, later)
    await change(store, ref, KeepTurn(RECORD))
    assert await store.read_turns(ref) == (RECORD, later)


async def test_whoever_does_not_hold_the_turn_writes_nothing_of_it(store: ValkeyStore) -> None:
    ref = await speaking_run(store)
    assert await store.keep_turn(ref, RECORD)
    assert not await store.keep_turn(ref, RECORD.but(generation=2, model="of another"))
    second = TimerKey(TimerKind.TURN_LEASE, generation=2)
    await change(store, ref, ClearTimer(LEASE), SetTimer(second, FAR_MS))
    assert not await store.keep_turn(ref, RECORD.but(model="too late"))
    assert await store.read_turns(ref) == (RECORD,)
