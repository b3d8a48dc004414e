"""SDKs on a network where every first try is lost: they repeat it, and it counts once."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.http.conformance.conftest import play
from tests.http.conformance.recorder import Exchange, Recorder
from tests.http.conformance.sdks import SDKS, Sdk
from tests.http.proxy import Fate, Loss, lossy_proxy

NODE: Final = next(sdk for sdk in SDKS if sdk.name == "openai (Node)")
AZURE: Final = next(sdk for sdk in SDKS if sdk.name == "azure-ai-agents")

CASES: Final = ((NODE, True), (NODE, False), (AZURE, False))
"""With the way in which requests are lost: Azure's SDK does not repeat a POST after a cut."""


def first_tries(loss: Loss) -> Fate:
    """Loses every first try of a request that changes something, as its SDK marks it."""
    seen: set[bytes] = set()

    def fate(head: bytes) -> Loss | None:
        if head.startswith(b"GET "):
            return None
        if count := re.search(rb"x-stainless-retry-count: (\d+)", head, re.IGNORECASE):
            return loss if count[1] == b"0" else None
        request_id = re.search(rb"x-ms-client-request-id: (\S+)", head, re.IGNORECASE)
        assert request_id, head
        if request_id[1] in seen:
            return None
        seen.add(request_id[1])
        return loss

    return fate


@pytest.mark.parametrize("is_before", [True, False], ids=["request", "answer"])
@pytest.mark.parametrize(("sdk", "is_cut"), CASES, ids=["node-cut", "node-504", "azure-504"])
async def test_an_sdk_whose_first_tries_are_lost_does_everything_once(  # noqa: PLR0917
    sdk: Sdk, is_cut: bool, is_before: bool, sdk_cache: Path, address: str, recorder: Recorder
) -> None:
    command = sdk.command(sdk_cache)
    async with lossy_proxy(urlsplit(address).port or 0) as (network, port):
        network.fate = first_tries(Loss(is_before=is_before, is_cut=is_cut))
        await play(*command, f"http://127.0.0.1:{port}/v1", "retrying")
    changes = [exchange for exchange in recorder.exchanges if exchange.method != "GET"]
    assert {exchange.method for exchange in changes} == {"POST", "DELETE"}
    tries = zip(changes) if is_before else zip(changes[::2], changes[1::2], strict=True)
    made = [outcome(of_one_request) for of_one_request in tries]
    assert len(made) == network.losses
    ids = [(path, object_id) for path, status, object_id in made if status == 200]
    creations = [(path, object_id) for path, object_id in ids if object_id not in path]
    assert len(creations) == len(set(creations)) >= 7


def outcome(tries: Iterable[Exchange]) -> tuple[str, int, str]:
    """What came of a request: the same for each of its tries."""
    (one,) = {(each.path, each.status, each.body.get("id", "")) for each in tries}
    return one
