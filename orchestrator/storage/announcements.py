"""What is true only as long as somebody repeats it: live processes and the tools they serve.

Each announcement is a key that expires by itself. A sorted set beside them knows the names, with
the time when each is forgotten; it is cleaned by whoever announces the next.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from pydantic import TypeAdapter

from orchestrator.records import ToolSpec
from orchestrator.storage.access import Access
from orchestrator.storage.pipelining import Command
from orchestrator.store import Presence

_PRESENCE: Final = TypeAdapter(Presence)


class Announcements(Access):
    """Keys: ``tool``, ``engine``, ``worker`` and their plurals, ``shapes``."""

    async def beat(self, presence: Presence, ttl_ms: int) -> None:
        """Say that a process is alive. Two round trips (the first for the clock)."""
        documents = {presence.id: _PRESENCE.dump_json(presence)}
        await self._announce(presence.kind, documents, await self.now_ms(), ttl_ms)

    async def leave(self, kind: Literal["engine", "worker"], process_id: str) -> None:
        """Say that a process ends. One round trip."""
        await self.pipeliner.group(
            [
                ("DEL", self.keys.announced(kind, process_id)),
                ("ZREM", self.keys.announcements(kind), process_id),
            ]
        )

    async def present(self, kind: Literal["engine", "worker"]) -> tuple[Presence, ...]:
        """Processes whose last heartbeat has not run out, by id. Two round trips."""
        documents = await self._announced(kind, await self._names(kind))
        return tuple(_PRESENCE.validate_json(document) for document in documents)

    async def publish_tools(self, tools: Sequence[ToolSpec], ttl_s: int) -> None:
        """Say that workers serve these tools. Two round trips (the first for the clock)."""
        documents = {tool.name: tool.model_dump_json().encode() for tool in tools}
        await self._announce("tool", documents, await self.now_ms(), ttl_s * 1000)

    async def tools(self, names: Sequence[str] | None = None) -> Mapping[str, ToolSpec]:
        """Published tools by name. One round trip for named ones, two for all."""
        wanted = await self._names("tool") if names is None else names
        documents = await self._announced("tool", wanted)
        tools = map(ToolSpec.model_validate_json, documents)
        return {tool.name: tool for tool in tools}

    async def swap_shape(self, tool: str, shape: str) -> str | None:
        """Note the shape of a tool's output; returns the one before. One round trip."""
        before, _ = await self.pipeliner.group(
            [("HGET", self.keys.shapes, tool), ("HSET", self.keys.shapes, tool, shape)]
        )
        return None if before is None else before.decode()

    async def _announce(
        self, kind: str, documents: Mapping[str, bytes], now_ms: int, ttl_ms: int
    ) -> None:
        names = self.keys.announcements(kind)
        commands: list[Command] = [("ZREMRANGEBYSCORE", names, "-inf", now_ms)]
        for name, document in documents.items():
            commands.append(("SET", self.keys.announced(kind, name), document, "PX", ttl_ms))
            commands.append(("ZADD", names, now_ms + ttl_ms, name))
        await self.pipeliner.group(commands)

    async def _names(self, kind: str) -> list[str]:
        names = await self.pipeliner.call("ZRANGE", self.keys.announcements(kind), 0, -1)
        return sorted(name.decode() for name in names)

    async def _announced(self, kind: str, names: Sequence[str]) -> list[bytes]:
        """The announcements that still stand (one key may have expired before its name)."""
        if not names:
            return []
        keys = [self.keys.announced(kind, name) for name in names]
        documents = await self.pipeliner.call("MGET", *keys)
        return [document for document in documents if document is not None]
