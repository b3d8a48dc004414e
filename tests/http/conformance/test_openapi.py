"""The server against its own OpenAPI document: nothing breaks it, nothing surprises a reader."""

import re
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI

from tests.http.conformance.conftest import play
from tests.http.conformance.recorder import Exchange, Recorder
from tests.http.conformance.sdks import environment

CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


async def test_no_request_breaks_the_server_or_is_answered_in_an_undocumented_way(
    sdk_cache: Path, address: str, app: FastAPI, recorder: Recorder, tmp_path: Path
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
    assert _unvisited(app.openapi()["paths"], recorder.exchanges) == set()


def _unvisited(paths: dict[str, dict[str, Any]], exchanges: list[Exchange]) -> set[tuple[str, str]]:
    """Documented operations that no request was for; a path without names comes first."""
    known = {path: re.compile(re.sub(r"{\w+}", "[^/]+", path)) for path in sorted(paths)}
    by_names = sorted(known, key=lambda path: path.count("{"))

    def path_of(url: str) -> str | None:
        return next((path for path in by_names if known[path].fullmatch(url)), None)

    visited = {(one.method.lower(), path_of(one.path)) for one in exchanges}
    return {(method, path) for path in paths for method in paths[path]} - visited
