"""Every key of the store, with its type and what ends it.

A key is ``<prefix>:{<tag>}:<kind>`` or ``<prefix>:{<tag>}:<kind>:<id>``. The tag decides the slot
on a cluster: ``pNN`` is the partition of a thread (crc32 of its id, modulo the number of
partitions), ``meta`` holds what belongs to no thread. The id comes last and the kind before it is
fixed, so no id that a client sends can name a key of another kind.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal
from zlib import crc32

KeyType = Literal["string", "hash", "zset", "stream"]


class Lifetime(StrEnum):
    """What ends a key."""

    INSTALLATION = "stays as long as the installation"
    THREAD = "goes with its thread"
    ASSISTANT = "goes with its assistant"
    EMPTY = "goes with its last member"
    RETENTION = "goes with its thread, or some time after its run has ended"
    EXPIRY = "expires by itself"


@dataclass(frozen=True, slots=True)
class KeyKind:
    """A kind of key. ``content`` says what is in it."""

    name: str
    type: KeyType
    lifetime: Lifetime
    content: str


META_KINDS: Final = (
    KeyKind("layout", "string", Lifetime.INSTALLATION, "JSON: format and number of partitions"),
    KeyKind("assistant", "hash", Lifetime.ASSISTANT, "rev, doc, nonce"),
    KeyKind("assistants", "zset", Lifetime.EMPTY, "assistant id by created_ms"),
    KeyKind("tenant-assistants", "zset", Lifetime.EMPTY, "those of one tenant"),
    KeyKind("deleted", "string", Lifetime.EXPIRY, "created_ms of a deleted assistant"),
    KeyKind("tenant-deleted", "string", Lifetime.EXPIRY, "the same, for its tenant"),
    KeyKind("receipt", "hash", Lifetime.EXPIRY, "rev, doc: a request about an assistant"),
    KeyKind("tool", "string", Lifetime.EXPIRY, "a published tool"),
    KeyKind("shapes", "hash", Lifetime.INSTALLATION, "JSON shape of a tool's last output by name"),
    KeyKind("tools", "zset", Lifetime.INSTALLATION, "tool name by the time when it is forgotten"),
    KeyKind("slots", "zset", Lifetime.EXPIRY, "holder of a slot of a tool by the end of its hold"),
    KeyKind("engine", "string", Lifetime.EXPIRY, "presence of an engine"),
    KeyKind("engines", "zset", Lifetime.INSTALLATION, "engine id by the time when it is forgotten"),
    KeyKind("worker", "string", Lifetime.EXPIRY, "presence of a worker"),
    KeyKind("workers", "zset", Lifetime.INSTALLATION, "worker id by the time when it is forgotten"),
)

DELETED_FOR_S: Final = 86_400
"""A day: the place of a deleted thread or assistant is remembered for walks that are under way."""

PARTITION_KINDS: Final = (
    KeyKind("timers", "zset", Lifetime.EMPTY, "timer by the time when it is due"),
    KeyKind("ready", "stream", Lifetime.INSTALLATION, "turns that are due; read by one group"),
    KeyKind("outbox", "stream", Lifetime.INSTALLATION, "calls to send or stop; read by one group"),
    KeyKind("threads", "zset", Lifetime.EMPTY, "thread id by created_ms"),
    KeyKind("runs", "zset", Lifetime.EMPTY, "run id by created_ms"),
    KeyKind("tenant-threads", "zset", Lifetime.EMPTY, "thread id by created_ms, of one tenant"),
    KeyKind("tenant-runs", "zset", Lifetime.EMPTY, "run id by created_ms, of one tenant"),
    KeyKind("active", "hash", Lifetime.INSTALLATION, "number of runs by the status clients see"),
    KeyKind("usage", "hash", Lifetime.INSTALLATION, "sums by tenant|model|what is summed up"),
    KeyKind("usage-day", "hash", Lifetime.EXPIRY, "the same of one day"),
    KeyKind("thread", "hash", Lifetime.THREAD, "rev, doc, nonce"),
    KeyKind("entries", "hash", Lifetime.THREAD, "transcript entry by seq"),
    KeyKind("messages", "zset", Lifetime.THREAD, "message id by seq"),
    KeyKind("deleted-messages", "zset", Lifetime.THREAD, "id of a deleted message by seq"),
    KeyKind("deleted", "string", Lifetime.EXPIRY, "created_ms of a deleted thread"),
    KeyKind("tenant-deleted", "string", Lifetime.EXPIRY, "the same, for its tenant"),
    KeyKind("receipt", "hash", Lifetime.EXPIRY, "rev, doc: a request about a thread"),
    KeyKind("reservation", "hash", Lifetime.EXPIRY, "id of a thread to be made, tries"),
    KeyKind("claim", "string", Lifetime.EXPIRY, "the request that has an Idempotency-Key"),
    KeyKind("thread-runs", "zset", Lifetime.THREAD, "run id by created_ms"),
    KeyKind("run", "hash", Lifetime.THREAD, "rev, nonce, spec, run, step:<id>, call:<id>"),
    KeyKind("run-log", "stream", Lifetime.RETENTION, "e: an event"),
    KeyKind("run-partial", "string", Lifetime.THREAD, "the text so far of an open message"),
    KeyKind("run-outputs", "hash", Lifetime.THREAD, "whole output by call id, where it was cut"),
    KeyKind("run-turns", "hash", Lifetime.THREAD, "record of a model turn by its number"),
    KeyKind("run-messages", "zset", Lifetime.THREAD, "message id by seq"),
)


Reader = str | None
"""Whose list it is: that of a tenant, or the operator's (``None``), who sees everything."""


def readers_of(tenant: str) -> tuple[Reader, Reader]:
    """Who finds in a list what belongs to the tenant."""
    return (None, tenant)


class Partition:
    """The keys of one partition; all of them are in one slot."""

    def __init__(self, prefix: str, number: int) -> None:
        self.number = number
        self._tag = tag = f"{prefix}:{{p{number:02d}}}"
        self.timers = f"{tag}:timers"
        self.ready = f"{tag}:ready"
        self.outbox = f"{tag}:outbox"
        self.active = f"{tag}:active"
        self.usage = f"{tag}:usage"
        self.bell = f"{tag}:bell"
        """A channel, not a key: it is rung by every commit of a run."""

    def threads(self, reader: Reader = None) -> str:
        """The threads."""
        return _of(reader, self._tag, "threads")

    def runs(self, reader: Reader = None) -> str:
        """The runs of all threads."""
        return _of(reader, self._tag, "runs")

    def usage_day(self, day: str) -> str:
        """What was used on a day of UTC, such as ``2026-11-30``."""
        return f"{self._tag}:usage-day:{day}"

    def thread(self, thread_id: str) -> str:
        """The thread's document."""
        return f"{self._tag}:thread:{thread_id}"

    def entries(self, thread_id: str) -> str:
        """The thread's transcript."""
        return f"{self._tag}:entries:{thread_id}"

    def messages(self, thread_id: str) -> str:
        """The messages among the thread's entries."""
        return f"{self._tag}:messages:{thread_id}"

    def deleted_messages(self, thread_id: str) -> str:
        """Where the thread's deleted messages were, for clients whose cursor is one of them."""
        return f"{self._tag}:deleted-messages:{thread_id}"

    def deleted(self, thread_id: str, reader: Reader = None) -> str:
        """Where a deleted thread was in the list."""
        return f"{_of(reader, self._tag, 'deleted')}:{thread_id}"

    def receipt(self, name: str) -> str:
        """Whether a request about one of the partition's threads was carried out."""
        return f"{self._tag}:receipt:{name}"

    def reservation(self, name: str) -> str:
        """Which thread a request is to make; in the partition of the request's name."""
        return f"{self._tag}:reservation:{name}"

    def claim(self, key: str) -> str:
        """Which request has an Idempotency-Key; in the partition of the key."""
        return f"{self._tag}:claim:{key}"

    def thread_runs(self, thread_id: str) -> str:
        """The thread's runs."""
        return f"{self._tag}:thread-runs:{thread_id}"

    def run(self, run_id: str) -> str:
        """The run's documents."""
        return f"{self._tag}:run:{run_id}"

    def run_log(self, run_id: str) -> str:
        """The run's events."""
        return f"{self._tag}:run-log:{run_id}"

    def run_partial(self, run_id: str) -> str:
        """What the model has said so far of the message that it is writing."""
        return f"{self._tag}:run-partial:{run_id}"

    def run_outputs(self, run_id: str) -> str:
        """The outputs of the run that models were shown in part."""
        return f"{self._tag}:run-outputs:{run_id}"

    def run_turns(self, run_id: str) -> str:
        """What the model turns of the run were sent, and what came of it."""
        return f"{self._tag}:run-turns:{run_id}"

    def run_messages(self, run_id: str) -> str:
        """The messages that the run wrote."""
        return f"{self._tag}:run-messages:{run_id}"


class Keys:
    """All keys of an installation."""

    def __init__(self, prefix: str, partitions: int) -> None:
        self.partitions = tuple(Partition(prefix, number) for number in range(partitions))
        self._meta = f"{prefix}:{{meta}}"
        self.layout = f"{self._meta}:layout"
        self.shapes = f"{self._meta}:shapes"

    def home(self, thread_id: str) -> Partition:
        """The partition of a thread and of everything that belongs to it."""
        return self.partitions[crc32(thread_id.encode()) % len(self.partitions)]

    def assistants(self, reader: Reader = None) -> str:
        """The assistants."""
        return _of(reader, self._meta, "assistants")

    def assistant(self, assistant_id: str) -> str:
        """The assistant's document."""
        return f"{self._meta}:assistant:{assistant_id}"

    def receipt(self, name: str) -> str:
        """Whether a request for an assistant was carried out."""
        return f"{self._meta}:receipt:{name}"

    def deleted(self, assistant_id: str, reader: Reader = None) -> str:
        """Where a deleted assistant was in the list."""
        return f"{_of(reader, self._meta, 'deleted')}:{assistant_id}"

    def slots(self, tool: str) -> str:
        """Who executes a tool that only so many may execute at once."""
        return f"{self._meta}:slots:{tool}"

    def announced(self, kind: str, name: str) -> str:
        """What was announced under this name: a tool, an engine or a worker."""
        return f"{self._meta}:{kind}:{name}"

    def announcements(self, kind: str) -> str:
        """The names that were announced."""
        return f"{self._meta}:{kind}s"


def _of(reader: Reader, tag: str, kind: str) -> str:
    return f"{tag}:{kind}" if reader is None else f"{tag}:tenant-{kind}:{reader}"
