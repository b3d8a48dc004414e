"""Which model answers to which name."""

from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from orchestrator.errors import ModelError
from orchestrator.llm.endpoint import Endpoint
from orchestrator.llm.protocol import Delta, Model, Notes, Reply, TurnRequest
from orchestrator.llm.routes import routes_of, table_of
from orchestrator.llm.scripted import ScriptedModel
from orchestrator.llm.unheeded import Pausing, Unheeded, Unnoted
from orchestrator.settings import ModelRoute, Settings

OFFICIAL: Final = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}


class _Adapter(Pausing, Protocol):
    def load(self) -> None: ...

    async def aclose(self) -> None: ...


class Models:
    """The models of one process. Close it at the end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._scripted = ScriptedModel(settings.scripts_dir)
        self._adapters: dict[ModelRoute, _Adapter] = {}

    def load(self) -> None:
        """Import the clients of all endpoints that are configured. That takes a second or more, in
        which an engine that holds turns would keep none of their leases. What is wrong is told when
        a model is asked.
        """
        for route in {route for routes in table_of(self._settings).values() for route in routes}:
            if route.api != "scripted":
                with suppress(ModelError):
                    self._adapter(route).load()

    def routes(self, name: str) -> tuple[ModelRoute, ...]:
        """Where this model is asked: first of all, and after each failure."""
        return routes_of(self._settings, name)

    def route(self, name: str, attempt: int = 0) -> ModelRoute:
        """Where it is asked after so many failures."""
        routes = self.routes(name)
        return routes[attempt % len(routes)]

    def model_for(self, name: str, attempt: int = 0, notes: Notes | None = None) -> Model:
        """The model of this name, for a run that has failed to ask one ``attempt`` times.
        ``notes`` are taken of what it is sent beside the first request.

        An unknown one fails when it is asked. After a failure its successor stays in use, until
        that fails as well.
        """
        route = self.route(name, attempt)
        model: Model = self._scripted
        if route.api != "scripted":
            model = Unheeded(self._adapter(route), notes or Unnoted())
        return _Renamed(model, route.model) if route.model else model

    async def aclose(self) -> None:
        """Close the connections to the endpoints."""
        for adapter in self._adapters.values():
            await adapter.aclose()

    def _adapter(self, route: ModelRoute) -> "_Adapter | _Unconfigured":
        endpoint = _endpoint(self._settings, route)
        if endpoint is None:
            return _Unconfigured(route)
        if route not in self._adapters:
            self._adapters[route] = self._made(route, endpoint)
        return self._adapters[route]

    def _made(self, route: ModelRoute, endpoint: Endpoint) -> _Adapter:
        # The packages are slow to import and large; who does not need one does without it.
        if route.api == "anthropic":
            from orchestrator.llm.anthropic_messages import AnthropicMessages

            return AnthropicMessages(endpoint, route.max_output_tokens, self._settings)
        from orchestrator.llm.openai_chat import OpenAIChat

        return OpenAIChat(endpoint, self._settings)


def missing_endpoint(settings: Settings, name: str) -> str | None:
    """What the settings lack to ask this model at all, in words."""
    route, *_ = routes_of(settings, name)
    is_there = route.api == "scripted" or _endpoint(settings, route) is not None
    return None if is_there else _lacking(name, route)


def _endpoint(settings: Settings, route: ModelRoute) -> Endpoint | None:
    """A key of the settings goes only where the settings say, never to a route's own URL."""
    if route.api == "anthropic":
        base_url, key = settings.anthropic_base_url, settings.anthropic_api_key
    else:
        base_url, key = settings.openai_base_url, settings.openai_api_key
    variable = f"RUNSTATE_{route.api.upper()}_API_KEY"
    if route.base_url or route.key_variable:
        base_url, key = route.base_url or base_url, route.key
        variable = route.key_variable or "key_variable in RUNSTATE_MODEL_ROUTES"
    if not (base_url or key):
        return None
    base_url = base_url or OFFICIAL[route.api]
    if route.api == "anthropic":  # its client adds /v1 itself
        base_url = base_url.rstrip("/").removesuffix("/v1")
    return Endpoint(base_url, key, variable)


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A model under the name that its endpoint knows."""

    model: Model
    name: str

    def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Reply]:
        """The same request under that name."""
        return self.model.stream(replace(request, spec=request.spec.but(model=self.name)))


@dataclass(frozen=True, slots=True)
class _Unconfigured:
    route: ModelRoute

    async def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Reply]:
        """Fail, and say what is missing."""
        raise ModelError(_lacking(request.spec.model, self.route))
        yield  # it is a generator all the same

    def load(self) -> None:
        """There is nothing to load."""


def _lacking(name: str, route: ModelRoute) -> str:
    api = route.api.upper()
    key = route.key_variable or f"RUNSTATE_{api}_API_KEY"
    return (
        f"No endpoint serves the model {name}: set RUNSTATE_{api}_BASE_URL or {key}, name its"
        " endpoint in RUNSTATE_MODEL_ROUTES, or use a model named scripted/…"
    )
