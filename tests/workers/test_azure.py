"""Azure's SDK (preview) and a worker: a call is made when the SDK's person has agreed to it."""

from pathlib import Path

import pytest

from tests.http.conformance import tours
from tests.http.conformance.conftest import play
from tests.http.conformance.sdks import environment
from tests.waiting import until
from tests.workers.hosts import Hosts
from tests.workers.scene import Scene

TOUR = Path(tours.__file__).with_name("azure_approvals.py")


async def test_the_preview_of_azures_sdk_approves_and_rejects_calls(
    scene: Scene, pytestconfig: pytest.Config
) -> None:
    cache: pytest.Cache = pytestconfig.cache
    python = environment("azure-preview.txt", cache.mkdir("sdks"))
    hosts = Hosts(scene)
    await hosts.start_api()
    hosts.start_engine()
    scene.start_worker()
    await until(lambda: scene.store.present("worker"), within_s=30)
    await play(str(python), "-W", "ignore", str(TOUR), f"{hosts.url}/v1")
