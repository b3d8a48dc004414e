"""What a crash or a missed deadline leaves behind stands in nobody's way."""

from collections.abc import AsyncIterator
from typing import Any, Final

from orchestrator.decisions import EventType
from orchestrator.settings import Settings
from orchestrator.store import Ring, Store
from tests.engine.rig import EngineRoom, run_command, run_reaches, start_run
from tests.waiting import until

HANGING: Final = {"turns": [{"delay_s": 30, "text": "too late"}]}
SHORT: Final = {"turns": [{"text": "Hello."}]}


class DeafStore:
    """A real store whose user hears of nothing that is committed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def rings(self) -> AsyncIterator[Ring]:
        """Nothing but that the subscription was made."""
        async for ring in self._store.rings():
            if ring.ref is None:
                yield ring


async def test_runs_of_a_killed_engine_take_no_room_of_the_next_one(
    store: Store, settings: Settings
) -> None:
    """It was playing as many as it could, and whoever plays them again never ends them."""
    room = EngineRoom(store, settings.model_copy(update={"engine_concurrency": 2}))
    room.start("killed")
    ghosts = [await start_run(store, run_command(HANGING, ttl_s=2)) for _ in range(2)]
    for ghost in ghosts:
        await run_reaches(store, ghost, "in_progress")
    await room.kill("killed")
    refs = [await start_run(store, run_command(SHORT)) for _ in range(10)]
    room.start("next")
    for ref in refs:
        await run_reaches(store, ref, "completed")
    for ghost in ghosts:
        await run_reaches(store, ghost, "expired")
    await room.close()


async def test_a_hundred_runs_that_are_due_at_once_expire_without_a_bell(
    store: Store, engines: EngineRoom
) -> None:
    refs = [await start_run(store, run_command(HANGING, ttl_s=0.3)) for _ in range(100)]
    engines.start("deaf", DeafStore(store))

    async def all_are_told() -> bool:
        """Read from the logs, since whoever reads a run applies its deadline."""
        ends = [(await store.read_events(ref))[-1][1].type for ref in refs]
        return set(ends) == {EventType.RUN_EXPIRED}

    await until(all_are_told)
