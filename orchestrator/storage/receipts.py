"""Receipts of requests, and what their tries agree on before there is one."""

from orchestrator.receipts import Filed, Receipt
from orchestrator.storage.access import Access
from orchestrator.storage.pipelining import Command


class Receipts(Access):
    """Keys: ``receipt`` (written by commits), ``reservation`` and ``claim``."""

    async def receipt(self, name: str, thread_id: str | None) -> Filed:
        """What is filed under the name. One round trip."""
        place = self.keys if thread_id is None else self.keys.home(thread_id)
        revision, document = await self.pipeliner.call("HMGET", place.receipt(name), "rev", "doc")
        if document is None:
            return Filed()
        return Filed(int(revision), Receipt.model_validate_json(document))

    async def reserve(self, name: str, thread_id: str, ttl_ms: int, *, is_first: bool) -> str:
        """Agree on a thread id. One round trip.

        A first try puts its own id there and counts itself; any other takes what it finds. If
        several first tries were counted, there were several requests that look alike, and nobody
        knows whose this one is: better a thread too many than one that two users share.
        """
        key = self.keys.home(name).reservation(name)
        writes: list[Command] = (
            [("HSET", key, "id", thread_id), ("HINCRBY", key, "tries", 1)]
            if is_first
            else [("HSETNX", key, "id", thread_id)]
        )
        reads: list[Command] = [("PEXPIRE", key, ttl_ms), ("HMGET", key, "id", "tries")]
        *_, (reserved, tries) = await self.pipeliner.group([*writes, *reads])
        is_certain = not is_first and int(tries or 0) <= 1
        return reserved.decode() if is_certain else thread_id

    async def claim_key(self, key: str, request: str, ttl_ms: int) -> str:
        """Which request has the key. One round trip."""
        claim = self.keys.home(key).claim(key)
        reads: list[Command] = [("SET", claim, request, "NX", "PX", ttl_ms), ("GET", claim)]
        _, claimed_by = await self.pipeliner.group(reads)
        return request if claimed_by is None else claimed_by.decode()  # None: just expired
