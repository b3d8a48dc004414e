"""Assistants: a document each, under a revision like every other."""

from collections.abc import Iterable, Mapping

from orchestrator.errors import NotFound, OperatorsOnly
from orchestrator.receipts import Remember
from orchestrator.records import EVERYBODY, Assistant
from orchestrator.storage.access import Access, Guard, until_fresh
from orchestrator.storage.changes import as_json, receipt_guards, receipt_writes
from orchestrator.storage.keys import DELETED_FOR_S, Reader, readers_of
from orchestrator.storage.paging import read_page
from orchestrator.storage.pipelining import Command
from orchestrator.store import Page, PageQuery


class Assistants(Access):
    """Keys: ``assistant``, ``assistants`` and ``deleted``."""

    async def put_assistant(self, assistant: Assistant, remember: Remember | None = None) -> None:
        """Write a new assistant. One round trip."""
        assistant = assistant.but(tenant=self.reader or assistant.tenant)
        await self._put(assistant, 0, remember)

    async def modify_assistant(
        self, assistant_id: str, changes: Mapping[str, object], remember: Remember | None = None
    ) -> Assistant:
        """Replace these fields. Two round trips."""

        async def attempt() -> Assistant:
            assistant, revision = await self._load_own(assistant_id)
            changed = Assistant.model_validate(assistant.model_dump() | dict(changes))
            moves: list[Command] = []
            if changed.tenant != assistant.tenant:
                moves.append(("ZREM", self.keys.assistants(assistant.tenant), assistant_id))
            await self._put(changed, revision, remember, moves)
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
            assistant, revision = await self._load_own(assistant_id)
            created_ms = assistant.created_ms
            writes: list[Command] = [("UNLINK", key), *receipt_writes(self.keys, remember)]
            for reader in readers_of(assistant.tenant):
                grave = self.keys.deleted(assistant_id, reader)
                writes.append(("ZREM", self.keys.assistants(reader), assistant_id))
                writes.append(("SET", grave, created_ms, "EX", DELETED_FOR_S))
            # The last guard's hash keeps the nonce, and the assistant's goes.
            await self.write([Guard(key, revision), *own_guards], writes)

        await until_fresh(attempt, but_for=own_guards)

    async def list_assistants(self, query: PageQuery) -> Page[Assistant]:
        """Assistants by creation. Two round trips, three with a cursor."""
        page = await read_page(
            self.pipeliner,
            self._lists(),
            query,
            "assistant",
            graves=lambda x: [("GET", self.keys.deleted(x, one)) for one in self._readers()],
        )
        documents = await self.pipeliner.group(
            ("HGET", self.keys.assistant(member.id), "doc") for member in page.items
        )
        assistants = (Assistant.model_validate_json(d) for d in documents if d is not None)
        return Page(tuple(assistants), page.has_more)

    def _readers(self) -> tuple[Reader, ...]:
        """In whose lists there is what this reader sees."""
        return (None,) if self.reader is None else (self.reader, EVERYBODY)

    def _lists(self) -> list[str]:
        return [self.keys.assistants(reader) for reader in self._readers()]

    async def _load(self, assistant_id: str) -> tuple[Assistant, int]:
        """A tenant looks into the lists first, as in ``Aggregates.look``."""
        if self.reader is not None:
            reads = (("ZSCORE", part, assistant_id) for part in self._lists())
            if all(score is None for score in await self.pipeliner.group(reads)):
                raise NotFound("assistant", assistant_id)
        key = self.keys.assistant(assistant_id)
        document, revision = await self.pipeliner.call("HMGET", key, "doc", "rev")
        if document is None:
            raise NotFound("assistant", assistant_id)
        return Assistant.model_validate_json(document), int(revision)

    async def _load_own(self, assistant_id: str) -> tuple[Assistant, int]:
        """One that this reader may change."""
        assistant, revision = await self._load(assistant_id)
        if not self.sees(assistant.tenant):
            raise OperatorsOnly(f"Changing {assistant_id}, which all tenants have in common,")
        return assistant, revision

    async def _put(
        self,
        assistant: Assistant,
        revision: int,
        remember: Remember | None,
        moves: Iterable[Command] = (),
    ) -> None:
        key = self.keys.assistant(assistant.id)
        writes: list[Command] = [
            ("HSET", key, "rev", revision + 1, "doc", as_json(assistant)),
            *receipt_writes(self.keys, remember),
            *moves,
        ]
        for reader in readers_of(assistant.tenant):
            member = assistant.created_ms, assistant.id
            writes.append(("ZADD", self.keys.assistants(reader), *member))
        guards = [*receipt_guards(self.keys, remember), Guard(key, revision)]
        await self.write(guards, writes)
