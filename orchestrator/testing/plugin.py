"""The pytest plugin ``runstate``: fixtures that cost nothing until a test asks for one."""

import secrets
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pydantic import SecretStr

    from orchestrator.testing.runs import Runs
    from orchestrator.testing.servers import TestStore


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option, for pytest's configuration file."""
    parser.addini("runstate_store", "embedded (default) or fakeredis", default="embedded")


@pytest.fixture(scope="session")
def runstate_server(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[SecretStr]":
    """The address of a server for this session."""
    from orchestrator.testing.servers import embedded_server, fake_server

    match kind := pytestconfig.getini("runstate_store"):
        case "embedded":
            server = embedded_server(tmp_path_factory.mktemp("runstate-server"))
        case "fakeredis":
            if not (find_spec("fakeredis") and find_spec("lupa")):
                raise pytest.UsageError("runstate_store = fakeredis: install fakeredis[lua].")
            server = fake_server()
        case _:
            raise pytest.UsageError(f"runstate_store = {kind}: embedded or fakeredis.")
    with server as url:
        yield url


@pytest.fixture
def runstate_store(runstate_server: "SecretStr") -> "TestStore":
    """A store with nothing in it; ``await runstate_store.open()`` reads what runs have left."""
    from orchestrator.testing.servers import TestStore

    return TestStore(runstate_server, f"test-{secrets.token_hex(6)}")


@pytest.fixture
def runs(runstate_store: "TestStore", tmp_path_factory: pytest.TempPathFactory) -> "Runs":
    """Plays whole runs: ``await runs.play(turns, tools=[…])``."""
    from orchestrator.testing.runs import Runs

    return Runs(runstate_store, tmp_path_factory.mktemp("runstate-scripts"))
