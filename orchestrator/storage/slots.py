"""How many executions of a tool there may be at once, over all hosts.

A slot is held for a while and kept by whoever keeps the call's lease, so that the slot of a worker
that was killed frees itself.
"""

from orchestrator.storage.access import Access
from orchestrator.storage.scripts import TAKE_SLOT


class Slots(Access):
    """Keys: ``slots``, which expire with their last holder."""

    async def take_slot(self, tool: str, holder: str, slots: int, hold_ms: int) -> bool:
        """Take or keep a slot. One round trip."""
        command = TAKE_SLOT.call([self.keys.slots(tool)], [holder, slots, hold_ms])
        return bool(await self.pipeliner.call(*command))

    async def free_slot(self, tool: str, holder: str) -> None:
        """Give a slot back. One round trip."""
        await self.pipeliner.call("ZREM", self.keys.slots(tool), holder)
