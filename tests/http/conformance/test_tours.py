"""Every SDK plays its tour with the key of a tenant, and every answer that it gets is as the
published schema has it.
"""

from pathlib import Path

import pytest

from tests.http.conformance.conftest import play
from tests.http.conformance.recorder import Recorder
from tests.http.conformance.schema import misfits
from tests.http.conformance.sdks import SDKS, Sdk, offered
from tests.http.conftest import as_a_tenant


@as_a_tenant
@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_an_sdk_can_do_all_that_it_offers_and_each_answer_fits_the_published_schema(
    sdk: Sdk, sdk_cache: Path, address: str, recorder: Recorder
) -> None:
    await play(*sdk.command(sdk_cache), f"{address}/v1")
    assert set(recorder.done()) == set(offered(sdk))
    assert all("x-request-id" in exchange.headers for exchange in recorder.exchanges)
    assert list(misfits(recorder.exchanges)) == []
