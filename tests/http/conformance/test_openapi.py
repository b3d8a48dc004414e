"""The server against its own OpenAPI document: nothing breaks it, nothing surprises a reader."""

from pathlib import Path
from typing import Final

from tests.http.conformance.conftest import play
from tests.http.conformance.recorder import Recorder
from tests.http.conformance.sdks import environment

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


async def test_no_request_breaks_the_server_or_is_answered_in_an_undocumented_way(
    sdk_cache: Path, address: str, recorder: Recorder, tmp_path: Path
) -> None:
    """Every operation, alone and along the links from one to the next, the same each time."""
    python = environment("schemathesis.txt", sdk_cache)
    await play(
        *(str(python), "-m", "schemathesis.cli", "run", f"{address}/openapi.json"),
        *("--checks", ",".join(CHECKS), "--warnings", "off", "--no-color"),
        *("--generation-deterministic", "--no-shrink"),
        *("--max-examples", "5", "--max-time", "30"),
        cwd=tmp_path,  # it leaves a folder of its notes
    )
    assert {exchange.status for exchange in recorder.exchanges} >= {200, 400, 404}
    assert all(exchange.status < 500 for exchange in recorder.exchanges)
