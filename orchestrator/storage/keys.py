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
    KeyKind("tool", "string", Lifetime.EXPIRY, "a published tool"),
    KeyKind("tools", "zset", Lifetime.INSTALLATION, "tool name by the time when it is forgotten"),
    KeyKind("engine", "string", Lifetime.EXPIRY, "presence of an engine"),
    KeyKind("engines", "zset", Lifetime.INSTALLATION, "engine id by the time when it is forgotten"),
    KeyKind("worker", "string", Lifetime.EXPIRY, "presence of a worker"),
    KeyKind("workers", "zset", Lifetime.INSTALLATION, "worker id by the time when it is forgotten"),
)

PARTITION_KINDS: Final = (
    KeyKind("timers", "zset", Lifetime.EMPTY, "timer by the time when it is due"),
    KeyKind("ready", "stream", Lifetime.INSTALLATION, "turns that are due; read by one group"),
    KeyKind("outbox", "stream", Lifetime.INSTALLATION, "calls to send or stop; read by one group"),
    KeyKind("threads", "zset", Lifetime.EMPTY, "thread id by created_ms"),
    KeyKind("runs", "zset", Lifetime.EMPTY, "run id by created_ms"),
    KeyKind("thread", "hash", Lifetime.THREAD, "rev, doc, nonce"),
    KeyKind("entries", "hash", Lifetime.THREAD, "transcript entry by seq"),
    KeyKind("messages", "zset", Lifetime.THREAD, "message id by seq"),
    KeyKind("thread-runs", "zset", Lifetime.THREAD, "run id by created_ms"),
    KeyKind("run", "hash", Lifetime.THREAD, "rev, nonce, spec, run, step:<id>, call:<id>"),
    KeyKind("run-log", "stream", Lifetime.THREAD, "e: an event"),
    KeyKind("run-messages", "zset", Lifetime.THREAD, "message id by seq"),
)


class Partition:
    """The keys of one partition; all of them are in one slot."""

    def __init__(self, prefix: str, number: int) -> None:
        self.number = number
        self._tag = tag = f"{prefix}:{{p{number:02d}}}"
        self.timers = f"{tag}:timers"
        self.ready = f"{tag}:ready"
        self.outbox = f"{tag}:outbox"
        self.threads = f"{tag}:threads"
        self.runs = f"{tag}:runs"
        self.bell = f"{tag}:bell"
        """A channel, not a key: it is rung by every commit of a run."""

    def thread(self, thread_id: str) -> str:
        """The thread's document."""
        return f"{self._tag}:thread:{thread_id}"

    def entries(self, thread_id: str) -> str:
        """The thread's transcript."""
        return f"{self._tag}:entries:{thread_id}"

    def messages(self, thread_id: str) -> str:
        """The messages among the thread's entries."""
        return f"{self._tag}:messages:{thread_id}"

    def thread_runs(self, thread_id: str) -> str:
        """The thread's runs."""
        return f"{self._tag}:thread-runs:{thread_id}"

    def run(self, run_id: str) -> str:
        """The run's documents."""
        return f"{self._tag}:run:{run_id}"

    def run_log(self, run_id: str) -> str:
        """The run's events."""
        return f"{self._tag}:run-log:{run_id}"

    def run_messages(self, run_id: str) -> str:
        """The messages that the run wrote."""
        return f"{self._tag}:run-messages:{run_id}"


class Keys:
    """All keys of an installation."""

    def __init__(self, prefix: str, partitions: int) -> None:
        self.partitions = tuple(Partition(prefix, number) for number in range(partitions))
        self._meta = f"{prefix}:{{meta}}"
        self.layout = f"{self._meta}:layout"
        self.assistants = f"{self._meta}:assistants"

    def home(self, thread_id: str) -> Partition:
        """The partition of a thread and of everything that belongs to it."""
        return self.partitions[crc32(thread_id.encode()) % len(self.partitions)]

    def assistant(self, assistant_id: str) -> str:
        """The assistant's document."""
        return f"{self._meta}:assistant:{assistant_id}"

    def announced(self, kind: str, name: str) -> str:
        """What was announced under this name: a tool, an engine or a worker."""
        return f"{self._meta}:{kind}:{name}"

    def announcements(self, kind: str) -> str:
        """The names that were announced."""
        return f"{self._meta}:{kind}s"
