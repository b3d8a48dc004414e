"""The example's client, which is nothing but the official SDK, against a whole server."""

import os
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


def test_the_client_plays_the_conversation_with_the_sdk_alone(base_url: str) -> None:
    told = {**os.environ, "OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "any"}
    command = [sys.executable, "-m", "examples.quietreads"]
    played = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    assert (played.returncode, played.stderr) == (0, "")
    assert played.stdout.count("\nyou ") == 3
    assert "The Tartar Steppe by Dino Buzzati" in played.stdout
    assert "The Invention of Morel by Adolfo Bioy Casares" in played.stdout
    assert "The scene on the pier undid me." in played.stdout
