"""The engine process: a few loops around one store.

Turns are found by the doorbell and, should a stroke be missed, by a look every second. Each loop
survives the store's absence: it waits and goes on.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from orchestrator.commands import Command, ConfirmCancel, StartTurn, TurnFailed
from orchestrator.decisions import TimerKey, TimerKind
from orchestrator.dispatch import Dispatcher
from orchestrator.engine.guards import Guards
from orchestrator.engine.held import HeldTurn, LetGo
from orchestrator.engine.turn import Turn
from orchestrator.errors import Gone, NotNow, StoreUnavailable
from orchestrator.housekeeping import timers
from orchestrator.llm.routing import Models
from orchestrator.settings import Settings
from orchestrator.shell import change_run
from orchestrator.states import RunStatus
from orchestrator.store import DueTurn, Presence, Ring, RunRef, Store

LOOK_S: Final = 1.0
"""How often an engine looks for work that no stroke of the doorbell announced."""
TIMER_TICK_S: Final = 0.2
"""How late a timer may fire. One pipelined look at all partitions costs the store about 0.1 ms."""
BEAT_S: Final = 1.0
ABSENT_AFTER_S: Final = 5.0
PARCELS: Final = 500
PARCEL_IDLE_MS: Final = 5_000

log = structlog.get_logger(__name__)


class Engine:
    """Plays turns until told to stop. Any number of engines may run, on any hosts."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        store: Store,
        models: Models,
        dispatcher: Dispatcher,
        settings: Settings,
        name: str,
        guards: Guards | None = None,
    ) -> None:
        self.name = name
        self._store = store
        self._models = models
        self._dispatcher = dispatcher
        self._settings = settings
        self._guards = guards or Guards()
        self._host = socket.gethostname()
        self._lease_ms = round(settings.turn_lease_s * 1000)
        self._held: dict[str, HeldTurn] = {}
        self._turns: set[asyncio.Task[None]] = set()
        self._has_turns = asyncio.Event()
        self._has_parcels = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set, then finish or hand back what is held, within the grace."""
        loops = (
            self._listen,
            lambda: self._every(LOOK_S, self._take_turns, self._has_turns),
            lambda: self._every(LOOK_S, self._send_parcels, self._has_parcels),
            lambda: self._every(TIMER_TICK_S, self._fire_timers),
            lambda: self._every(self._settings.turn_lease_s / 3, self._renew_leases),
            lambda: self._every(BEAT_S, self._beat),
        )
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop()) for loop in loops]
            await stop.wait()
            taking = tasks[1]
            taking.cancel()
            await self._finish_turns()
            for task in tasks:
                task.cancel()
        await self._store.leave("engine", self.name)

    # -- loops ------------------------------------------------------------------------------------

    async def _every(
        self,
        period_s: float,
        act: Callable[[], Awaitable[None]],
        bell: asyncio.Event | None = None,
    ) -> None:
        """Act now and then every ``period_s``, or sooner when the bell rings."""
        bell = bell or asyncio.Event()
        while True:
            bell.clear()
            try:
                await act()
            except StoreUnavailable:
                log.warning("store.unavailable", loop=act.__name__)
            except Exception:
                log.exception("loop.failed", loop=act.__name__)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(period_s):
                    await bell.wait()

    async def _listen(self) -> None:
        async for ring in self._store.rings():
            if ring.has_turn or ring.ref is None:
                self._has_turns.set()
            if ring.has_parcel or ring.ref is None:
                self._has_parcels.set()
            self._heed(ring)

    def _heed(self, ring: Ring) -> None:
        """Let go of a turn that was cancelled, or that the run went on without."""
        held = self._held.get(ring.ref.run_id) if ring.ref else None
        if held is None or ring.status in (None, RunStatus.IN_PROGRESS):
            return
        is_cancel = ring.status == RunStatus.CANCELLING
        held.let_go(LetGo.CANCELLED if is_cancel else LetGo.LOST)

    async def _take_turns(self) -> None:
        room = self._settings.engine_concurrency - len(self._turns)
        if room <= 0:
            return
        for due in await self._store.take_turns(room, self._lease_ms):
            task = asyncio.create_task(self._play(due))
            self._turns.add(task)
            task.add_done_callback(self._turn_ended)

    def _turn_ended(self, task: asyncio.Task[None]) -> None:
        if len(self._turns) >= self._settings.engine_concurrency:
            self._has_turns.set()
        self._turns.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("turn.failed", exc_info=error)

    async def _send_parcels(self) -> None:
        parcels = await self._store.take_parcels(PARCELS, PARCEL_IDLE_MS)
        if not parcels:
            return
        await self._dispatcher.deliver(parcels)
        await self._store.finish_parcels([parcel.ticket for parcel in parcels])
        if len(parcels) == PARCELS:
            self._has_parcels.set()

    async def _fire_timers(self) -> None:
        patience_ms = round(self._settings.unserved_after_s * 1000)
        while await timers.fire_due(self._store, patience_ms) == timers.BATCH:
            pass

    async def _renew_leases(self) -> None:
        held = tuple(self._held.values())
        renewals = (
            self._store.renew(
                one.turn.ref, TimerKey(TimerKind.TURN_LEASE, one.turn.generation), self._lease_ms
            )
            for one in held
        )
        for one, is_ours in zip(held, await asyncio.gather(*renewals), strict=True):
            if not is_ours:
                one.let_go(LetGo.LOST)

    async def _beat(self) -> None:
        info = {"host": self._host, "turns": str(len(self._turns))}
        presence = Presence("engine", self.name, info)
        await self._store.beat(presence, round(ABSENT_AFTER_S * 1000))

    # -- one turn ---------------------------------------------------------------------------------

    async def _play(self, due: DueTurn) -> None:
        with structlog.contextvars.bound_contextvars(
            run_id=due.ref.run_id, thread_id=due.ref.thread_id
        ):
            try:
                start = StartTurn(self.name, self._lease_ms)
                aggregate = await change_run(self._store, due.ref, start)
            except (NotNow, Gone) as error:
                log.debug("turn.not_due", reason=str(error))
                await self._acknowledge(due)
                return
            turn = Turn(self._store, self._models, aggregate, self._settings, self._guards)
            asking = asyncio.create_task(turn.play())
            held = self._hold(HeldTurn(turn, asking))
            try:
                await self._acknowledge(due)
                await asyncio.wait({asking})
                await self._conclude(held)
            finally:
                asking.cancel()
                self._drop(held)

    def _hold(self, held: HeldTurn) -> HeldTurn:
        """Keep the turn's lease from now on. An earlier turn of the run that we lost is over."""
        if (lost := self._held.get(held.turn.ref.run_id)) is not None:
            lost.let_go(LetGo.LOST)
        self._held[held.turn.ref.run_id] = held
        return held

    def _drop(self, held: HeldTurn) -> None:
        if self._held.get(held.turn.ref.run_id) is held:
            del self._held[held.turn.ref.run_id]

    async def _acknowledge(self, due: DueTurn) -> None:
        """Take the entry off the ready stream. Left there, it is found again and means nothing."""
        with contextlib.suppress(StoreUnavailable):
            await self._store.finish_turns([due.ticket])

    async def _conclude(self, held: HeldTurn) -> None:
        command = self._conclusion(held)
        if command is None:
            return
        try:
            await self._insist(held.turn.ref, command)
        except (NotNow, Gone) as error:
            log.info("turn.superseded", reason=str(error))

    def _conclusion(self, held: HeldTurn) -> Command | None:
        """The command that ends this engine's part in the turn."""
        if not held.asking.cancelled():
            return self._outcome(held)
        match held.reason:
            case LetGo.CANCELLED:
                return ConfirmCancel()
            case LetGo.STOPPING:
                return held.turn.hand_back()
            case _:
                return None

    def _outcome(self, held: HeldTurn) -> Command | None:
        error = held.asking.exception()
        if error is None:
            return held.asking.result()
        if isinstance(error, StoreUnavailable):
            return held.turn.hand_back()
        if isinstance(error, NotNow | Gone):
            return None
        log.error("turn.failed", exc_info=error)
        message = "The server failed while it asked the model."
        return TurnFailed(held.turn.generation, "server_error", message)

    async def _insist(self, ref: RunRef, command: Command) -> None:
        """Commit through an absence of the store: a reply that was paid for is not thrown away."""
        while True:
            try:
                await change_run(self._store, ref, command)
            except StoreUnavailable:
                log.warning("store.unavailable", command=type(command).__name__)
                await asyncio.sleep(LOOK_S)
            else:
                return

    async def _finish_turns(self) -> None:
        """Wait for the turns under way; hand back what is not done when the grace is over."""
        if self._turns:
            await asyncio.wait(self._turns, timeout=self._settings.shutdown_grace_s)
        for held in tuple(self._held.values()):
            held.let_go(LetGo.STOPPING)
        if self._turns:
            await asyncio.wait(self._turns, timeout=LOOK_S)
