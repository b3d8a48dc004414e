"""The values of request bodies, beside those of assistants: tools, and choices for runs.

Tools of other clouds, which we keep without acting on them, pass through as they came.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from orchestrator.fields import Body, word_or_structure
from orchestrator.server_tools import ServerToolType, named_twice

TokenLimit = Annotated[int, Field(ge=256)]
IfBusy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""Ours: what is to be done while a run is active. SDKs send it with ``extra_body``."""
Executor = Literal["auto", "client"]
"""Ours: whether workers may execute the calls of a run."""


# -- tools -----------------------------------------------------------------------------------------


class Function(Body):
    """What the model may call; ``parameters`` is a JSON Schema object."""

    name: str = Field(pattern="^[a-zA-Z0-9_-]+$", max_length=64)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(Body):
    """A tool that workers or the client execute."""

    type: Literal["function"]
    function: Function


class RankingOptions(Body):
    """Kept."""

    ranker: Literal["auto", "default_2024_08_21"] | None = None
    score_threshold: float = Field(ge=0.0, le=1.0)


class FileSearchOptions(Body):
    """Kept."""

    max_num_results: Annotated[int, Field(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None


class FileSearchTool(Body):
    """Kept; a run that needs it is refused."""

    type: Literal["file_search"]
    file_search: FileSearchOptions | None = None


class ForeignTool(BaseModel):
    """Kept; a run that needs it is refused."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    type: Literal[
        "code_interpreter",
        "azure_function",
        "openapi",
        "bing_grounding",
        "azure_ai_search",
        "connected_agent",
    ]


class ServerTool(BaseModel):
    """A tool that the model's provider runs; what else it takes is for the provider to check.
    ``max_uses`` counts over the run.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    type: ServerToolType
    max_uses: Annotated[int, Field(ge=1)] | None = None


Tool = Annotated[
    FunctionTool | FileSearchTool | ServerTool | ForeignTool, Field(discriminator="type")
]


def _names_once(tools: list[Tool]) -> list[Tool]:
    if twice := named_twice([tool.model_dump() for tool in tools]):
        raise ValueError(f"more than one tool is named {', '.join(map(repr, twice))}.")
    return tools


EachNameOnce: Final = AfterValidator(_names_once)


class FunctionName(Body):
    """Names a function."""

    name: str


class NamedTool(Body):
    """The tool that the model must use."""

    type: Literal[
        "function",
        "code_interpreter",
        "file_search",
        "bing_grounding",
        "azure_ai_search",
        "connected_agent",
    ]
    function: FunctionName | None = None


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("word")]
    | Annotated[NamedTool, Tag("structure")],
    Discriminator(word_or_structure),
]


class TruncationStrategy(Body):
    """How much of the thread the model is shown."""

    type: Literal["auto", "last_messages", "compact"]
    last_messages: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_rule(self) -> "TruncationStrategy":
        if self.type == "compact" and self.last_messages is not None:
            raise ValueError("'last_messages' does not go with the type 'compact'.")
        return self
