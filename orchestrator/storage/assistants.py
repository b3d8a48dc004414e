"""Assistants: a document each, under a revision like every other."""

from collections.abc import Mapping

from orchestrator.errors import NotFound
from orchestrator.receipts import Remember
from orchestrator.records import Assistant
from orchestrator.storage.access import Access, Guard, until_fresh
from orchestrator.storage.changes import as_json, receipt_guards, receipt_writes
from orchestrator.storage.keys import DELETED_FOR_S
from orchestrator.storage.paging import read_page
from orchestrator.storage.pipelining import Command
from orchestrator.store import Page, PageQuery


class Assistants(Access):
    """Keys: ``assistant``, ``assistants`` and ``deleted``."""

    async def put_assistant(self, assistant: Assistant, remember: Remember | None = None) -> None:
        """Write a new assistant. One round trip."""
        await self._put(assistant, 0, remember)

    async def modify_assistant(
        self, assistant_id: str, changes: Mapping[str, object], remember: Remember | None = None
    ) -> Assistant:
        """Replace these fields. Two round trips."""

        async def attempt() -> Assistant:
            assistant, revision = await self._load(assistant_id)
            changed = Assistant.model_validate(assistant.model_dump() | dict(changes))
            await self._put(changed, revision, remember)
            return changed

        return await until_fresh(attempt, but_for=receipt_guards(self.keys, remember))

    async def get_assistant(self, assistant_id: str) -> Assistant:
        """One assistant. One round trip."""
        assistant, _ = await self._load(assistant_id)
        return assistant

    async def delete_assistant(self, assistant_id: str, remember: Remember | None = None) -> None:
        """Remove it. Two round trips."""
        key = self.keys.assistant(assistant_id)
        own_guards = receipt_guards(self.keys, remember)

        async def attempt() -> None:
            assistant, revision = await self._load(assistant_id)
            created_ms = assistant.created_ms
            writes: list[Command] = [
                ("UNLINK", key),
                ("ZREM", self.keys.assistants, assistant_id),
                ("SET", self.keys.deleted(assistant_id), created_ms, "EX", DELETED_FOR_S),
                *receipt_writes(self.keys, remember),
            ]
            # The last guard's hash keeps the nonce, and the assistant's goes.
            await self.write([Guard(key, revision), *own_guards], writes)

        await until_fresh(attempt, but_for=own_guards)

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

    async def _load(self, assistant_id: str) -> tuple[Assistant, int]:
        key = self.keys.assistant(assistant_id)
        document, revision = await self.pipeliner.call("HMGET", key, "doc", "rev")
        if document is None:
            raise NotFound("assistant", assistant_id)
        return Assistant.model_validate_json(document), int(revision)

    async def _put(self, assistant: Assistant, revision: int, remember: Remember | None) -> None:
        key = self.keys.assistant(assistant.id)
        writes: list[Command] = [
            ("HSET", key, "rev", revision + 1, "doc", as_json(assistant)),
            ("ZADD", self.keys.assistants, assistant.created_ms, assistant.id),
            *receipt_writes(self.keys, remember),
        ]
        guards = [*receipt_guards(self.keys, remember), Guard(key, revision)]
        await self.write(guards, writes)
