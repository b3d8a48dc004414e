"""https without a proxy: what Azure's SDK needs to work by endpoint and credential alone."""

import os
import shutil
import ssl
import sys
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from benchmarks.tls import make_certificate
from orchestrator.settings import Settings
from orchestrator.store import Store
from tests.engine.rig import EngineRoom
from tests.http.conformance.conftest import play
from tests.http.conformance.sdks import SDKS
from tests.http.test_process import ROOT, address_of, start


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of its own, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("this system has no openssl to make a certificate with")
    return make_certificate(tmp_path_factory.mktemp("tls"))


async def test_https_is_served_and_azures_sdk_needs_endpoint_and_credential_alone(
    request: pytest.FixtureRequest,
    redis_url: SecretStr,
    settings: Settings,
    store: Store,
    certificate: Path,
) -> None:
    azure = next(sdk for sdk in SDKS if sdk.name == "azure-ai-agents")
    command = azure.command(request.config.cache.mkdir("sdks"))
    told = {"redis_url": redis_url.get_secret_value(), "port": "0"}
    process = await start(**told, tls_certificate=str(certificate))
    address = await address_of(process)
    room = EngineRoom(store, settings)
    room.start("engine-1")
    trust = ssl.create_default_context(cafile=certificate)
    async with httpx2.AsyncClient(base_url=address, verify=trust) as http:
        assert (await http.get("/readyz")).status_code == 200
    ours = ("env", f"SSL_CERT_FILE={certificate}", sys.executable, "-m", "cli.main", "queues")
    await play(*ours, "--url", f"{address}/v1", cwd=ROOT)
    await play("env", f"REQUESTS_CA_BUNDLE={certificate}", *command, f"{address}/v1")
    await room.close()
    process.terminate()
    await process.communicate()


async def test_a_file_that_is_no_certificate_is_said_to_be_none(tmp_path: Path) -> None:
    nonsense = tmp_path / "certificate.pem"
    nonsense.write_text("nonsense")
    process = await start(redis_url="redis://127.0.0.1:1/0", tls_certificate=str(nonsense))
    _, log = await process.communicate()
    assert process.returncode == os.EX_CONFIG
    assert log.decode().startswith("RUNSTATE_TLS_CERTIFICATE and RUNSTATE_TLS_KEY are no")
