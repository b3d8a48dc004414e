"""The ledger of calls through the API, for a worker host that is not given the store.

Implements ``orchestrator.ledger.WorkerLedger``: ``api/workers.py`` is the other end. An API that
does not answer, or not as expected, is a store that is away: whoever asked asks again.
"""

import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, Final

import httpx2

from orchestrator.errors import CallNotOpen, NotFound, StoreMismatch, StoreUnavailable
from orchestrator.ledger import VERBS, CallCommand, Sighting
from orchestrator.records import ToolCall, ToolSpec
from orchestrator.settings import Settings
from orchestrator.store import Presence, RunRef

TIMEOUT_S: Final = 5.0

_VERB_OF: Final = {command: verb for verb, command in VERBS.items()}

Json = dict[str, Any]


class RemoteLedger:
    """The ledger as the key may see it. For one event loop."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx2.AsyncClient(
            base_url=f"{url.rstrip('/')}/workers",
            headers={b"authorization": f"Bearer {key}".encode()},
            timeout=TIMEOUT_S,
            verify=_trusted(),
        )

    async def check(self, tools: Collection[str]) -> None:
        """Raises ``StoreMismatch`` if the key does not serve all of these tools."""
        answer = await self._send("GET", "/key")
        self._refuse(answer, 401, 404)
        served = set(_json(answer)["tools"])
        if missing := sorted(set(tools) - served) if "*" not in served else None:
            raise StoreMismatch(
                f"The key of RUNSTATE_WORKER_KEY does not serve {', '.join(missing)}."
            )

    async def change(self, ref: RunRef, command: CallCommand) -> ToolCall:
        """One request."""
        path = f"{_path(ref, command.call_id)}/{_VERB_OF[type(command)]}"
        fields = asdict(command)
        del fields["call_id"]
        return ToolCall.model_validate((await self._call(path, command.call_id, fields))["call"])

    async def find(self, ref: RunRef, call_id: str) -> Sighting:
        """One request."""
        found = await self._call(_path(ref, call_id), call_id)
        return Sighting(ToolCall.model_validate(found["call"]), found["now_ms"])

    async def renew(self, ref: RunRef, call: ToolCall, lease_ms: int, cap_ms: int) -> bool:
        """One request."""
        lease = {"generation": call.generation, "lease_ms": lease_ms, "cap_ms": cap_ms}
        try:
            answered = await self._call(f"{_path(ref, call.id)}/lease", call.id, lease)
        except NotFound:
            return False
        return bool(answered["is_kept"])

    async def announce(
        self, presence: Presence, ttl_ms: int, tools: Sequence[ToolSpec], tools_ttl_s: int
    ) -> None:
        """One request. Raises ``StoreMismatch`` if the key has been taken away."""
        specs = [tool.model_dump(mode="json") for tool in tools]
        about = {"worker": presence.id, **presence.info}
        lasting = {"ttl_ms": ttl_ms, "tools": specs, "tools_ttl_s": tools_ttl_s}
        answer = await self._send("POST", "/presence", about | lasting)
        self._refuse(answer, 401)
        _json(answer)

    async def leave(self, worker: str) -> None:
        """One request."""
        _json(await self._send("POST", "/leave", {"worker": worker}))

    async def take_slot(self, tool: str, holder: str, slots: int, hold_ms: int) -> bool:
        """One request."""
        slot = {"tool": tool, "holder": holder, "slots": slots, "hold_ms": hold_ms}
        return bool(_json(await self._send("POST", "/slots/take", slot))["is_taken"])

    async def free_slot(self, tool: str, holder: str) -> None:
        """One request."""
        _json(await self._send("POST", "/slots/free", {"tool": tool, "holder": holder}))

    async def swap_shape(self, tool: str, shape: str) -> str | None:
        """One request."""
        answered = _json(await self._send("POST", "/shapes", {"tool": tool, "shape": shape}))
        before: str | None = answered["before"]
        return before

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def _call(
        self, path: str, call_id: str, body: Mapping[str, object] | None = None
    ) -> Json:
        """What the API answers about a call."""
        answer = await self._send("GET" if body is None else "POST", path, body)
        match answer.status_code, _code(answer):
            case 404, None:
                raise NotFound("tool call", call_id)
            case 400, code if code != "foreign":
                raise CallNotOpen(call_id, "not open")
        return _json(answer)

    def _refuse(self, answer: httpx2.Response, *statuses: int) -> None:
        if answer.status_code in statuses:
            raise StoreMismatch(
                f"{self._http.base_url} refuses the key of RUNSTATE_WORKER_KEY: the API must have"
                " it in RUNSTATE_WORKER_KEYS."
            )

    async def _send(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> httpx2.Response:
        try:
            return await self._http.request(method, path, json=body)
        except httpx2.TransportError as error:
            raise StoreUnavailable(f"The API did not answer: {error!r}.") from error


def connect_remote(settings: Settings) -> RemoteLedger:
    """The ledger as the settings of a worker without a store name it."""
    assert settings.api_url is not None  # noqa: S101 - has_no_store says so
    assert settings.worker_key is not None  # noqa: S101
    return RemoteLedger(settings.api_url, settings.worker_key.get_secret_value())


def _path(ref: RunRef, call_id: str) -> str:
    return f"/threads/{ref.thread_id}/runs/{ref.run_id}/calls/{call_id}"


def _json(answer: httpx2.Response, status: int = 200) -> Json:
    """The body of an answer with this status; any other one is a fault on the way."""
    try:
        if answer.status_code == status:
            body: Json = answer.json()
            return body
    except ValueError:
        pass
    raise StoreUnavailable(f"The API answered {answer.status_code}.")


def _code(answer: httpx2.Response) -> str | None:
    """The code of a refusal that the API itself wrote; "foreign" if somebody else did."""
    if answer.is_success:
        return None
    try:
        code: str | None = answer.json()["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return "foreign"
    return code


@cache
def _trusted() -> ssl.SSLContext:
    """Whom we trust, read once: a forked child has it from its parent."""
    return ssl.create_default_context()
