"""What a worker may ask of the ledger of calls: a small part of the store, so that a worker host
may be given less than the store. ``StoreLedger`` is the part on the store itself;
``workers/remote.py`` has it through the API.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from orchestrator.commands import (
    CallLost,
    CallProgress,
    CallResult,
    ClaimCall,
    PostponeCall,
    RetryCall,
)
from orchestrator.decisions import TimerKey, TimerKind
from orchestrator.errors import NotFound
from orchestrator.records import Aggregate, ToolCall, ToolSpec
from orchestrator.shell import change_run
from orchestrator.store import Presence, RunRef, RunView, Store

CallCommand = PostponeCall | ClaimCall | CallResult | RetryCall | CallLost | CallProgress
"""What workers do with a call."""

VERBS: Final[Mapping[str, type[CallCommand]]] = {
    "postpone": PostponeCall,
    "claim": ClaimCall,
    "result": CallResult,
    "retry": RetryCall,
    "lost": CallLost,
    "progress": CallProgress,
}
"""The commands as the API names them."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A call as it was at ``now_ms`` of the store's clock."""

    call: ToolCall
    now_ms: int


class WorkerLedger(Protocol):
    """Every method may raise ``StoreUnavailable``; after it, a change may have been made. Each of
    them may be repeated then: a claim (under its nonce) and a result count once.
    """

    async def change(self, ref: RunRef, command: CallCommand) -> ToolCall:
        """Apply a command to a call; returns the call. Raises ``NotNow`` and ``Gone``."""
        ...

    async def find(self, ref: RunRef, call_id: str) -> Sighting:
        """The call as it is; its arguments may be left out. Raises ``NotFound``."""
        ...

    async def renew(self, ref: RunRef, call: ToolCall, lease_ms: int, cap_ms: int) -> bool:
        """Move the lease of this claim to now + ``lease_ms``, at most ``cap_ms``. False: it is lost
        to you.
        """
        ...

    async def announce(
        self, presence: Presence, ttl_ms: int, tools: Sequence[ToolSpec], tools_ttl_s: int
    ) -> None:
        """Say that a worker is alive, and which tools it serves."""
        ...

    async def leave(self, worker: str) -> None:
        """Say that a worker ends."""
        ...

    async def swap_shape(self, tool: str, shape: str) -> str | None:
        """Note the JSON shape of a tool's output; returns that of its last one."""
        ...

    async def take_slot(self, tool: str, holder: str, slots: int, hold_ms: int) -> bool:
        """Take one of the tool's slots, or keep it. False: all are taken."""
        ...

    async def free_slot(self, tool: str, holder: str) -> None:
        """Give the slot back."""
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


class StoreLedger:
    """The ledger on the store, which is closed with it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def change(self, ref: RunRef, command: CallCommand) -> ToolCall:
        """Two round trips when nobody races."""
        return _found(await change_run(self._store, ref, command), command.call_id)

    async def find(self, ref: RunRef, call_id: str) -> Sighting:
        """One round trip."""
        view = await self._store.view(ref)
        return Sighting(_found(view, call_id), view.now_ms)

    async def renew(self, ref: RunRef, call: ToolCall, lease_ms: int, cap_ms: int) -> bool:
        """One round trip."""
        key = TimerKey(TimerKind.CALL_LEASE, call.generation, call.id)
        return await self._store.renew(ref, key, lease_ms, cap_ms)

    async def announce(
        self, presence: Presence, ttl_ms: int, tools: Sequence[ToolSpec], tools_ttl_s: int
    ) -> None:
        """One round trip."""
        await asyncio.gather(
            self._store.beat(presence, ttl_ms), self._store.publish_tools(tools, tools_ttl_s)
        )

    async def leave(self, worker: str) -> None:
        """One round trip."""
        await self._store.leave("worker", worker)

    async def swap_shape(self, tool: str, shape: str) -> str | None:
        """One round trip."""
        return await self._store.swap_shape(tool, shape)

    async def take_slot(self, tool: str, holder: str, slots: int, hold_ms: int) -> bool:
        """One round trip."""
        return await self._store.take_slot(tool, holder, slots, hold_ms)

    async def free_slot(self, tool: str, holder: str) -> None:
        """One round trip."""
        await self._store.free_slot(tool, holder)

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()


def _found(run: Aggregate | RunView, call_id: str) -> ToolCall:
    for call in run.calls:
        if call.id == call_id:
            return call
    raise NotFound("tool call", call_id)
