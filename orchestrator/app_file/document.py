"""What an app file may say, section by section (docs/app-file.md).

With ``Checks`` as the context of its validation, names and code that it refers to are looked at as
well.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from orchestrator.app_file.code import Code
from orchestrator.fields import AssistantValues, Body, ModelName
from orchestrator.records import GuardPoint, Json, Price
from orchestrator.server_tools import ServerToolType
from orchestrator.settings import Routes, Settings

LIMITS: Final = (
    "run_ttl_s",
    "max_turns",
    "max_tool_calls",
    "max_repeated_calls",
    "max_total_tokens",
    "max_cost_usd",
    "unserved_after_s",
    "model_max_retries",
    "model_connect_timeout_s",
    "model_first_token_timeout_s",
    "model_timeout_s",
    "model_total_timeout_s",
)
"""The settings that belong to an application rather than to the place where it runs."""


@dataclass(slots=True)
class Checks:
    """What is known of the file's names while it is validated. ``table``: those of ``tools``."""

    code: Code
    table: Set[str]
    assistants: set[str] = field(default_factory=set)


def _module(source: str, info: ValidationInfo) -> str:
    if info.context:
        info.context.code.add_tools(source)
    return source


def _known_tool(name: str, info: ValidationInfo) -> str:
    checks: Checks | None = info.context
    if checks and checks.code.is_complete and name not in {*checks.code.tools, *checks.table}:
        raise ValueError(f"There is no tool {name} in tool_modules or tools")
    return name


def _each_once(names: list[str]) -> list[str]:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{', '.join(twice)} is there twice")
    return names


def _new_assistant(name: str, info: ValidationInfo) -> str:
    checks: Checks | None = info.context
    if checks and name in checks.assistants:
        raise ValueError(f"There are two assistants named {name}")
    if checks:
        checks.assistants.add(name)
    return name


ToolName = Annotated[str, AfterValidator(_known_tool)]
NewToolName = Annotated[str, Field(pattern="^[a-zA-Z0-9_-]+$", max_length=64)]


# -- tools and assistants --------------------------------------------------------------------------


class FunctionEntry(Body):
    """A tool of ``tool_modules``; with ``parameters`` (a JSON Schema object), one of clients."""

    type: Literal["function"] = "function"
    server_side: Literal[False] = False
    enabled: bool = True
    description: str | None = None
    parameters: Json | None = None


class ServerToolEntry(Body):
    """A tool that the model's provider runs. ``max_uses`` counts over the run; ``options`` go to
    the provider as they are.
    """

    type: ServerToolType
    server_side: Literal[True]
    enabled: bool = True
    max_uses: Annotated[int, Field(ge=1)] | None = None
    options: Json = Field(default_factory=dict)


def _side(value: Any) -> str:
    is_server_side = isinstance(value, dict) and (
        value.get("server_side") or value.get("type", "function") != "function"
    )
    return "a server-side tool" if is_server_side else "a function"


ToolEntry = Annotated[
    Annotated[FunctionEntry, Tag("a function")]
    | Annotated[ServerToolEntry, Tag("a server-side tool")],
    Discriminator(_side),
]


class AssistantEntry(AssistantValues):
    """An assistant, which is known by its name. ``tools`` are names."""

    name: Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_new_assistant)]
    model: ModelName
    tools: Annotated[list[ToolName], Field(max_length=128), AfterValidator(_each_once)] = Field(
        default_factory=list
    )


# -- models, guardrails, limits --------------------------------------------------------------------


class PriceEntry(Price):
    """Dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelsSection(BaseModel):
    """As ``RUNSTATE_MODEL_ROUTES`` and ``RUNSTATE_MODEL_PRICES``; ``scripts_dir`` is seen from the
    file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    routes: dict[str, Routes] = {}
    prices: dict[str, PriceEntry] = {}
    scripts_dir: str | None = None


class GuardrailEntry(Body):
    """A rule; ``function`` is ``MODULE:NAME``."""

    on: Literal["input", "output", "tool_input", "tool_output"]
    function: str
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    tools: list[ToolName] = Field(default_factory=list)
    models: list[str] = Field(default_factory=list)

    @field_validator("function")
    @classmethod
    def _can_look(cls, source: str, info: ValidationInfo) -> str:
        if info.context and "on" in info.data:
            info.context.code.add_guardrail(source, GuardPoint(info.data["on"]))
        return source

    @model_validator(mode="after")
    def _is_about_what_is_there(self) -> "GuardrailEntry":
        if self.tools and not self.on.startswith("tool_"):
            raise ValueError("'tools' goes with tool_input and tool_output only")
        # What was looked at for one model is shown to the next one, too: a thread has but one past.
        if self.models and self.on not in {"output", "tool_input"}:
            raise ValueError("'models' goes with output and tool_input only")
        return self


LimitsSection: type[BaseModel] = create_model(
    "LimitsSection",
    __config__=ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False),
    **{  # type: ignore[call-overload] # the settings' own types, bounds and defaults
        name: (Settings.model_fields[name].annotation, Settings.model_fields[name])
        for name in LIMITS
    },
)


# -- the whole -------------------------------------------------------------------------------------


class AppFile(Body):
    """All sections; each may be missing. Names are checked in this order."""

    tool_modules: list[Annotated[str, AfterValidator(_module)]] = Field(default_factory=list)
    tools: dict[NewToolName, ToolEntry] = Field(default_factory=dict)
    assistants: list[AssistantEntry] = Field(default_factory=list)
    models: ModelsSection = ModelsSection()
    guardrails: list[GuardrailEntry] = Field(default_factory=list)
    limits: LimitsSection = LimitsSection()

    def settings(self, folder: Path) -> dict[str, Any]:
        """What it says of the settings. ``folder`` is the file's."""
        found: dict[str, Any] = self.limits.model_dump(exclude_unset=True)
        models = self.models
        if models.routes:
            found["model_routes"] = models.routes
        if models.prices:
            found["model_prices"] = models.prices
        if models.scripts_dir:
            found["scripts_dir"] = folder / models.scripts_dir
        return found
