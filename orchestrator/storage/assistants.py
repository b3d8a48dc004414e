"""Assistants: a document each, under a revision like every other."""

from orchestrator.errors import NotFound
from orchestrator.records import Assistant
from orchestrator.storage.access import Access, Guard, until_fresh
from orchestrator.storage.paging import read_page
from orchestrator.store import Page, PageQuery


class Assistants(Access):
    """Keys: ``assistant`` and ``assistants``."""

    async def put_assistant(self, assistant: Assistant, *, is_new: bool) -> None:
        """Write an assistant. One round trip for a new one, else two."""
        if is_new:
            await self._put(assistant, 0)
        else:
            await until_fresh(lambda: self._replace(assistant))

    async def get_assistant(self, assistant_id: str) -> Assistant:
        """One assistant. One round trip."""
        document = await self.pipeliner.call("HGET", self.keys.assistant(assistant_id), "doc")
        if document is None:
            raise NotFound("assistant", assistant_id)
        return Assistant.model_validate_json(document)

    async def delete_assistant(self, assistant_id: str) -> None:
        """Remove it. Two round trips."""

        async def attempt() -> None:
            key = self.keys.assistant(assistant_id)
            revision = await self._revision(assistant_id)
            writes = [("UNLINK", key), ("ZREM", self.keys.assistants, assistant_id)]
            await self.write([Guard(key, revision)], writes)

        await until_fresh(attempt)

    async def list_assistants(self, query: PageQuery) -> Page[Assistant]:
        """Assistants by creation. Two round trips, three with a cursor."""
        page = await read_page(self.pipeliner, [self.keys.assistants], query, "assistant")
        documents = await self.pipeliner.group(
            ("HGET", self.keys.assistant(member.id), "doc") for member in page.items
        )
        assistants = (Assistant.model_validate_json(d) for d in documents if d is not None)
        return Page(tuple(assistants), page.has_more)

    async def _replace(self, assistant: Assistant) -> None:
        await self._put(assistant, await self._revision(assistant.id))

    async def _put(self, assistant: Assistant, revision: int) -> None:
        key = self.keys.assistant(assistant.id)
        document = assistant.model_dump_json()
        await self.write(
            [Guard(key, revision)],
            [
                ("HSET", key, "rev", revision + 1, "doc", document),
                ("ZADD", self.keys.assistants, assistant.created_ms, assistant.id),
            ],
        )

    async def _revision(self, assistant_id: str) -> int:
        revision = await self.pipeliner.call("HGET", self.keys.assistant(assistant_id), "rev")
        if revision is None:
            raise NotFound("assistant", assistant_id)
        return int(revision)
