"""A limit to the memory that one forked call may take, beside what its worker has loaded."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def memory_limit(limit_mb: int | None) -> Iterator[None]:
    """Beyond the limit, ``MemoryError`` is raised in the block, and in none of what follows.

    Linux only. What counts is private writable memory (``RLIMIT_DATA``), not what is only mapped.
    """
    if limit_mb is None or sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + limit_mb * 2**20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int:
    """What counts so far. ``VmData: 1234 kB`` is a line of the status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))
