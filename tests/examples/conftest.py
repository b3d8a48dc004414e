"""A whole server for the examples."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.storage.embedded import find_free_port


@pytest.fixture
def base_url(tmp_path: Path) -> Iterator[str]:
    """A ``runstate dev`` that is ready for runs."""
    port = find_free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "dev", "--data", tmp_path, "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with server:
        assert server.stdout
        try:
            assert any("export OPENAI_API_KEY" in line for line in server.stdout), "not started"
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
