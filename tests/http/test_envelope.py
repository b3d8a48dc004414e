"""Every answer that is not 200 has the same form, whoever refuses; every answer has an id."""

import json
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from structlog.testing import capture_logs

from api.bodies import MAX_BODY_BYTES
from orchestrator.errors import StoreUnavailable
from orchestrator.settings import Settings
from orchestrator.store import Store
from tests.http.conftest import serve

JSON = {"content-type": "application/json"}


def error_of(response: httpx2.Response) -> dict[str, str | None]:
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req_")
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, str | None] = body["error"]
    return error


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
async def test_an_unknown_url_is_404_before_anything_is_read(
    http: httpx2.AsyncClient, method: str
) -> None:
    for path in ("/v1/_unknown?limit=no", "/nowhere", "/v1/threads/"):
        response = await http.request(method, path, content=b"{not json", headers=JSON)
        assert response.status_code == 404
        error = error_of(response)
        assert error["code"] == "unknown_url"
        assert error["message"] == (
            f"Unknown request URL: {method} {path.split('?')[0]}. Please check the URL for typos."
        )


async def test_a_wrong_method_is_405(http: httpx2.AsyncClient) -> None:
    response = await http.put("/v1/threads/thread_1")
    assert response.status_code == 405
    assert error_of(response)["message"] == "Not allowed to PUT on /v1/threads/thread_1."
    assert response.headers["allow"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"model": "m",}',
        b'{"model": NaN}',
        b'{"model": "\\ud835"}',
        b'{"model": "\xff"}',
        b'{"model": "\x00"}',
        b'{"model": "m", "metadata": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    ],
)
async def test_a_body_that_is_not_json_is_400(http: httpx2.AsyncClient, body: bytes) -> None:
    response = await http.post("/v1/assistants", content=body, headers=JSON)
    assert response.status_code == 400
    message = error_of(response)["message"]
    assert message is not None
    assert message.startswith("The body is not valid JSON: ")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_body_of_another_content_type_is_400(
    http: httpx2.AsyncClient, content_type: str
) -> None:
    headers = {"content-type": content_type} if content_type else {}
    response = await http.post("/v1/assistants", content=b'{"model": "m"}', headers=headers)
    assert response.status_code == 400
    message = error_of(response)["message"]
    assert message is not None
    assert "application/json" in message


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"x"', b"5"])
async def test_a_body_that_is_no_object_is_400(http: httpx2.AsyncClient, body: bytes) -> None:
    response = await http.post("/v1/assistants", content=body, headers=JSON)
    assert response.status_code == 400
    assert error_of(response)["type"] == "invalid_request_error"


async def test_too_large_a_body_is_413(http: httpx2.AsyncClient) -> None:
    body = json.dumps({"model": "m" * 3 * MAX_BODY_BYTES}).encode()

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1_000_000):
            yield body[start : start + 1_000_000]

    for content in (body, in_pieces()):
        response = await http.post("/v1/assistants", content=content, headers=JSON)
        assert response.status_code == 413
        assert error_of(response)["code"] == "request_too_large"


async def test_success_has_a_request_id_too(http: httpx2.AsyncClient) -> None:
    first, second = [(await http.get("/v1/assistants")).headers for _ in range(2)]
    assert first["x-request-id"] != second["x-request-id"]


async def test_what_nobody_foresaw_is_500_without_a_traceback(
    settings: Settings, store: Store
) -> None:
    class Broken:
        """A store of which nothing is there."""

        async def close(self) -> None:
            """Nothing to close."""

    async def connect() -> Store:
        return Broken()  # type: ignore[return-value]

    with capture_logs() as logs:
        async with (
            serve(settings, connect) as address,
            httpx2.AsyncClient(base_url=address) as http,
        ):
            response = await http.get("/v1/assistants")
    assert response.status_code == 500
    assert [line["event"] for line in logs if line.get("exc_info")] == ["request.failed"]
    assert error_of(response) == {
        "message": "The server had an error while processing your request.",
        "type": "server_error",
        "param": None,
        "code": None,
    }


async def test_without_the_store_the_api_starts_and_answers_503(settings: Settings) -> None:
    async def connect() -> Store:
        raise StoreUnavailable("secret address")

    async with (
        serve(settings, connect) as address,
        httpx2.AsyncClient(base_url=address) as http,
    ):
        response = await http.post("/v1/threads", json={})
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert error_of(response)["type"] == "server_error"
        assert "secret" not in response.text
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["missing"]) == (503, ["store"])
        assert (await http.get("/healthz")).status_code == 200


async def test_the_api_goes_on_as_soon_as_the_store_is_there(
    settings: Settings, store: Store
) -> None:
    answers: Iterator[StoreUnavailable | Store] = iter([StoreUnavailable("not yet"), store])

    async def connect() -> Store:
        answer = next(answers)
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    async with (
        serve(settings, connect) as address,
        httpx2.AsyncClient(base_url=address) as http,
    ):
        response = await http.post("/v1/threads", json={})
        assert response.status_code == 200
