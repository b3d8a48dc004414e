"""Where a provider is reached, and what its official client is told about it.

The clients of OpenAI and Anthropic are generated alike: the same options, the same names of errors.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import httpx2
from pydantic import SecretStr

from orchestrator.settings import Settings

NO_KEY: Final = "none"
"""For local servers that ask for no key; the clients insist on one."""

KEEP_ALIVE_S: Final = 4.0
"""Uvicorn (vLLM, LiteLLM) and llama.cpp close idle connections after 5 s: a request that meets this
has failed.
"""

SENTENCE_LIMIT_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``base_url`` is always given to the client: without it, it would follow OPENAI_BASE_URL,
    which users of a Runstate server set to that very server. ``key_variable`` is where the key came
    from.
    """

    base_url: str
    key: SecretStr | None
    key_variable: str

    def client_options(self, sdk: ModuleType, settings: Settings) -> dict[str, Any]:
        """The options of the official client ``sdk``. It repeats nothing: the engine does."""
        silence_s = settings.model_timeout_s
        connect_s = min(silence_s, settings.model_connect_timeout_s)
        connections = settings.engine_concurrency
        return {
            "base_url": self.base_url,
            "api_key": self._secret() or NO_KEY,
            "max_retries": 0,
            "timeout": httpx2.Timeout(silence_s, connect=connect_s),
            "http_client": sdk.DefaultAsyncHttpxClient(
                limits=httpx2.Limits(
                    max_connections=connections,
                    max_keepalive_connections=connections,
                    keepalive_expiry=KEEP_ALIVE_S,
                )
            ),
        }

    def shown(self, text: str) -> str:
        """A provider's words as a run may tell them: without the key, and not too long."""
        if secret := self._secret():
            text = text.replace(secret, "…")
        return text if len(text) <= SENTENCE_LIMIT_CHARS else f"{text[:SENTENCE_LIMIT_CHARS]}…"

    def _secret(self) -> str:
        return self.key.get_secret_value() if self.key else ""
