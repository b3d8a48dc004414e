"""The kit's own fixtures, on the embedded server unless a test asks for fakeredis."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from pydantic import SecretStr

from orchestrator.testing.plugin import runs, runstate_store
from orchestrator.testing.servers import embedded_server, fake_server

__all__ = ["runs", "runstate_store"]


@pytest.fixture(scope="session")
def runstate_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecretStr]:
    """A server of the kind that the test's parameter names."""
    server: AbstractContextManager[SecretStr] = fake_server()
    if getattr(request, "param", "embedded") == "embedded":
        server = embedded_server(tmp_path_factory.mktemp("server"))
    with server as url:
        yield url
