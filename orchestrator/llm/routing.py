"""Which model answers to which name: ``scripted/…`` plays scripts, all else is the endpoint's."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from orchestrator.errors import ModelError
from orchestrator.llm.protocol import Delta, Model, Reply, TurnRequest
from orchestrator.llm.scripted import PREFIX, ScriptedModel
from orchestrator.settings import Settings

if TYPE_CHECKING:
    from orchestrator.llm.openai_chat import OpenAIChat


class Models:
    """The models of one process. Close it at the end."""

    def __init__(self, settings: Settings) -> None:
        self._scripted = ScriptedModel(settings.scripts_dir)
        self._chat = _endpoint(settings)

    def model_for(self, name: str) -> Model:
        """The model of this name. An unknown one fails when it is asked."""
        if name.startswith(PREFIX):
            return self._scripted
        return self._chat or _Unconfigured()

    async def aclose(self) -> None:
        """Close the connections to the endpoint."""
        if self._chat is not None:
            await self._chat.aclose()


def _endpoint(settings: Settings) -> "OpenAIChat | None":
    if not (settings.openai_base_url or settings.openai_api_key):
        return None
    # The package is slow to import and large; who only plays scripts does without it.
    from orchestrator.llm.openai_chat import OpenAIChat

    return OpenAIChat(settings)


class _Unconfigured:
    async def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Reply]:
        """Fail, and say what is missing."""
        raise ModelError(
            f"No endpoint serves the model {request.spec.model}: set RUNSTATE_OPENAI_BASE_URL or"
            " RUNSTATE_OPENAI_API_KEY, or use a model named scripted/…"
        )
        yield  # it is a generator all the same
