"""The store on Valkey 7.2 or newer, or Redis 7.0 or newer."""

import asyncio
import json
from collections.abc import AsyncGenerator
from copy import copy
from typing import Any, Final, Self

import structlog
from pydantic import SecretStr
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError

from orchestrator.errors import StoreMismatch, StoreUnavailable
from orchestrator.settings import Settings
from orchestrator.storage.announcements import Announcements
from orchestrator.storage.assistants import Assistants
from orchestrator.storage.doorbell import listen
from orchestrator.storage.durability import Durability, read_durability
from orchestrator.storage.keys import Keys
from orchestrator.storage.pipelining import Pipeliner
from orchestrator.storage.receipts import Receipts
from orchestrator.storage.scripts import SCRIPTS
from orchestrator.storage.slots import Slots
from orchestrator.storage.streams import Streams
from orchestrator.storage.threads import Threads
from orchestrator.storage.timers import Timers
from orchestrator.storage.usage import UsageSums
from orchestrator.store import Ring
from orchestrator.tls import StoreConnection

FORMAT: Final = 1
"""Rises when a newer version could not read what an older one wrote."""

LOADING_POLL_S: Final = 0.2
DAY_MS: Final = 86_400_000

log = structlog.get_logger(__name__)


class ValkeyStore(Threads, Assistants, Receipts, Timers, Streams, Announcements, Slots, UsageSums):
    """Implements ``orchestrator.store.Store``; each part of it is a file of this folder.

    The client must be as ``connect`` makes it: RESP2, bytes, no retries. It is closed with the
    store. The log of a run is kept for ``retention_ms`` after its end.
    """

    def __init__(
        self, client: Redis, prefix: str, partitions: int, retention_ms: int = DAY_MS
    ) -> None:
        self._client = client
        pipeliner = Pipeliner(client, [script.text for script in SCRIPTS])
        super().__init__(pipeliner, Keys(prefix, partitions), retention_ms)

    def seen_by(self, tenant: str) -> Self:
        """The same store as one tenant sees it. It is closed with this one."""
        seen = copy(self)
        seen.reader = tenant
        return seen

    async def prepare(self) -> None:
        """Make the store ready: wait until it has loaded its data, check or write the layout,
        create the streams. Raises ``StoreMismatch`` if it was laid out for other settings.
        """
        await self._wait_until_loaded()
        await self._check_layout()
        await self.create_groups()

    def rings(self) -> AsyncGenerator[Ring]:
        """The doorbell of all partitions, on a connection of its own, until closed."""
        return listen(self._client, self.keys)

    async def durability(self) -> Durability:
        """How much of what was acknowledged survives. One round trip."""
        return await read_durability(self.pipeliner)

    async def close(self) -> None:
        """Wait for what is under way and give the connections back."""
        await self.pipeliner.close()
        await self._client.aclose()

    async def _wait_until_loaded(self) -> None:
        is_told = False
        while True:
            try:
                await self.pipeliner.call("PING")
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, BusyLoadingError):
                    raise
            else:
                return
            if not is_told:
                log.info("store.loading")
                is_told = True
            await asyncio.sleep(LOADING_POLL_S)

    async def _check_layout(self) -> None:
        ours = {"format": FORMAT, "partitions": len(self.keys.partitions)}
        _, found = await self.pipeliner.group(
            [("SET", self.keys.layout, json.dumps(ours), "NX"), ("GET", self.keys.layout)]
        )
        theirs = json.loads(found)
        if theirs != ours:
            raise StoreMismatch(
                f"The store was laid out with {theirs['partitions']} partitions in format "
                f"{theirs['format']}, the settings say {ours['partitions']} in format "
                f"{ours['format']}. Set RUNSTATE_PARTITIONS={theirs['partitions']}, or another "
                "RUNSTATE_KEY_PREFIX for a new installation."
            )


def connect(url: SecretStr) -> Redis:
    """A client as the store needs it, whatever the options in the URL say."""
    options: dict[str, Any] = {
        **parse_url(url.get_secret_value()),
        "protocol": 2,
        "decode_responses": False,
        "retry": Retry(NoBackoff(), 0),
        "driver_info": None,
    }
    if options.get("connection_class") is SSLConnection:
        options["connection_class"] = StoreConnection
    return Redis.from_pool(ConnectionPool(**options))


async def open_store(settings: Settings) -> ValkeyStore:
    """The store that the settings name, ready for use. Logs how durable it is; close it after."""
    store = ValkeyStore(
        connect(settings.redis_url),
        settings.key_prefix,
        settings.partitions,
        round(settings.event_retention_s * 1000),
    )
    try:
        await store.prepare()
        durability = await store.durability()
    except BaseException:
        await store.close()
        raise
    log.info("store.opened", durability=durability.level)
    for warning in durability.warnings:
        log.warning("store.warning", reason=warning)
    return store
