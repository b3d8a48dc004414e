"""Where the runs of tests are kept: the embedded server, or fakeredis."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from orchestrator.settings import Settings
from orchestrator.storage import embedded
from orchestrator.storage.valkey import connect
from orchestrator.testing.clock import PARTITIONS, Clock, ClockedStore


@dataclass(frozen=True, slots=True)
class TestStore:
    """A store with nothing of other tests in it: its keys begin with ``key_prefix``."""

    __test__ = False

    url: SecretStr
    key_prefix: str
    clock: Clock = field(default_factory=Clock)

    def settings(self, scripts_dir: Path | None = None, run_ttl_s: float = 60) -> Settings:
        """Settings for this store. A call is lost by a fault, never by being slow."""
        return Settings(
            redis_url=self.url,
            key_prefix=self.key_prefix,
            partitions=PARTITIONS,
            scripts_dir=scripts_dir,
            run_ttl_s=run_ttl_s,
            call_lease_s=3_600,
            shutdown_grace_s=0,
        )

    async def open(self) -> ClockedStore:
        """The store, ready for use on the running event loop. Close it."""
        store = ClockedStore(connect(self.url), self.key_prefix, self.clock)
        await store.prepare()
        return store


@contextmanager
def embedded_server(folder: Path) -> Iterator[SecretStr]:
    """The address of a real server that keeps its data in the folder."""
    server = embedded.start(folder)
    try:
        yield server.url
    finally:
        server.stop()


@contextmanager
def fake_server() -> Iterator[SecretStr]:
    """The address of a fakeredis in this process; needs ``fakeredis[lua]``."""
    from fakeredis import TcpFakeServer

    server = TcpFakeServer(("127.0.0.1", 0), server_type="valkey")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield SecretStr(f"redis://127.0.0.1:{server.server_address[1]}/0")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
