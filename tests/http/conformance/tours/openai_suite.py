"""A pytest plugin for openai's own tests: the objects that they name are there anew for each."""

import os
import urllib.request
from urllib.parse import urljoin

import pytest


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest) -> None:
    """Tests that create need a free thread; the others a run that waits."""
    is_free = "create" in request.node.name
    address = urljoin(os.environ["TEST_API_BASE_URL"], f"/seed?is_free={is_free}")
    urllib.request.urlopen(urllib.request.Request(address, method="POST")).read()  # noqa: S310
