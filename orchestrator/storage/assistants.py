"""Assistants: a document each, under a revision like every other."""

from orchestrator.errors import NotFound
from orchestrator.receipts import Remember
from orchestrator.records import Assistant
from orchestrator.storage.access import Access, Guard, until_fresh
from orchestrator.storage.changes import receipt_writes
from orchestrator.storage.keys import DELETED_FOR_S
from orchestrator.storage.paging import read_page
from orchestrator.storage.pipelining import Command
from orchestrator.store import Page, PageQuery


class Assistants(Access):
    """Keys: ``assistant``, ``assistants`` and ``deleted``."""

    async def put_assistant(
        self, assistant: Assistant, *, is_new: bool, remember: Remember | None = None
    ) -> None:
        """Write an assistant. One round trip for a new one, else two."""
        if is_new:
            await self._put(assistant, 0, remember)
        else:
            await until_fresh(lambda: self._replace(assistant))

    async def get_assistant(self, assistant_id: str) -> Assistant:
        """One assistant. One round trip."""
        document = await self.pipeliner.call("HGET", self.keys.assistant(assistant_id), "doc")
        if document is None:
            raise NotFound("assistant", assistant_id)
        return Assistant.model_validate_json(document)

    async def delete_assistant(self, assistant_id: str) -> None:
        """Remove it. Three round trips."""

        async def attempt() -> None:
            key = self.keys.assistant(assistant_id)
            revision = await self._revision(assistant_id)
            created_ms = (await self.get_assistant(assistant_id)).created_ms
            writes: list[Command] = [
                ("UNLINK", key),
                ("ZREM", self.keys.assistants, assistant_id),
                ("SET", self.keys.deleted(assistant_id), created_ms, "EX", DELETED_FOR_S),
            ]
            await self.write([Guard(key, revision)], writes)

        await until_fresh(attempt)

    async def list_assistants(self, query: PageQuery) -> Page[Assistant]:
        """Assistants by creation. Two round trips, three with a cursor."""
        page = await read_page(
            self.pipeliner,
            [self.keys.assistants],
            query,
            "assistant",
            grave=lambda cursor: ("GET", self.keys.deleted(cursor)),
        )
        documents = await self.pipeliner.group(
            ("HGET", self.keys.assistant(member.id), "doc") for member in page.items
        )
        assistants = (Assistant.model_validate_json(d) for d in documents if d is not None)
        return Page(tuple(assistants), page.has_more)

    async def _replace(self, assistant: Assistant) -> None:
        await self._put(assistant, await self._revision(assistant.id))

    async def _put(
        self, assistant: Assistant, revision: int, remember: Remember | None = None
    ) -> None:
        key = self.keys.assistant(assistant.id)
        document = assistant.model_dump_json()
        guards = [Guard(key, revision)]
        writes: list[Command] = [
            ("HSET", key, "rev", revision + 1, "doc", document),
            ("ZADD", self.keys.assistants, assistant.created_ms, assistant.id),
        ]
        if remember:
            receipt = self.keys.receipt(remember.name)
            guards.insert(0, Guard(receipt, remember.revision))
            writes += receipt_writes(receipt, remember)
        await self.write(guards, writes)

    async def _revision(self, assistant_id: str) -> int:
        revision = await self.pipeliner.call("HGET", self.keys.assistant(assistant_id), "rev")
        if revision is None:
            raise NotFound("assistant", assistant_id)
        return int(revision)
