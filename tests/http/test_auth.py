"""Keys: who has one comes in, and without any only the same machine is served."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from openai import AsyncOpenAI, AuthenticationError
from pydantic import SecretStr

from api.auth import open_door
from orchestrator.settings import ApiKey, Settings

KEYS = (
    ApiKey(secret=SecretStr("first-key-of-the-server")),
    ApiKey(secret=SecretStr("zweiter-schlüssel"), tenant="library"),
)


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    return Settings(redis_url=redis_url, api_keys=KEYS)


@pytest.fixture
async def keyed(address: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=f"{address}/v1", api_key=KEYS[0].secret.get_secret_value(), max_retries=0
    ) as client:
        yield client


async def test_every_key_opens(http: httpx2.AsyncClient, keyed: AsyncOpenAI) -> None:
    assert (await keyed.beta.assistants.list()).data == []
    for key in KEYS:
        value = f"bearer {key.secret.get_secret_value()}".encode()
        response = await http.get("/ops/runs", headers={b"authorization": value})
        assert response.status_code == 200


async def test_a_wrong_key_is_refused_and_not_repeated(keyed: AsyncOpenAI) -> None:
    wrong = keyed.with_options(api_key="wrong-key-of-somebody-1234")
    with pytest.raises(AuthenticationError, match="Incorrect API key provided") as error:
        await wrong.beta.assistants.list()
    assert error.value.code == "invalid_api_key"
    assert "wrong-key" not in str(error.value)


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Basic Zm9v"}, {"authorization": "Bearer"}]
)
async def test_without_a_key_nothing_is_read(
    http: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    for path in ("/v1/threads", "/v1/_unknown", "/ops/runs"):
        response = await http.post(path, content=b"{", headers=headers)
        assert response.status_code == 401
        assert "API key" in response.json()["error"]["message"]
        assert response.headers["x-request-id"]


async def test_health_needs_no_key(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/healthz")).status_code == 200
    assert (await http.get("/readyz")).status_code == 503


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_may_be_served_without_keys(host: str) -> None:
    assert open_door(host, ()) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])  # noqa: S104
def test_any_other_address_needs_keys_and_the_refusal_says_so(host: str) -> None:
    sentence = open_door(host, ())
    assert sentence is not None
    assert "RUNSTATE_API_KEYS" in sentence
    assert open_door(host, KEYS) is None


class TestWithoutKeys:
    @pytest.fixture
    def settings(self, redis_url: SecretStr) -> Settings:
        return Settings(redis_url=redis_url)

    @pytest.mark.parametrize("name", ["localhost:8010", "127.0.0.1", "[::1]:8010"])
    async def test_names_of_loopback_are_served(self, http: httpx2.AsyncClient, name: str) -> None:
        assert (await http.get("/ops/runs", headers={"host": name})).status_code == 200

    @pytest.mark.parametrize("name", ["evil.example:8010", "127.0.0.1.evil.example", "[::", ""])
    async def test_a_name_that_somebody_has_pointed_here_is_not(
        self, http: httpx2.AsyncClient, name: str
    ) -> None:
        for path in ("/ops/runs", "/ops/ui/runs", "/v1/assistants", "/metrics"):
            response = await http.get(path, headers={"host": name})
            assert response.status_code == 403
            assert "RUNSTATE_API_KEYS" in response.json()["error"]["message"]
        assert (await http.get("/healthz", headers={"host": name})).status_code == 200
