"""The values that request bodies are made of: metadata, tools, resources, formats.

What we keep without acting on it (resources of file search and code interpreter, the tools of other
clouds) passes through as it came.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

MAX_TEXT_CHARS: Final = 256_000


class Body(BaseModel):
    """The manner of all request bodies: unknown fields are refused, types are not bent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def given(self) -> dict[str, Any]:
        """What the client wrote, as JSON values under the wire's names."""
        return self.model_dump(exclude_unset=True, by_alias=True)


def word_or_structure(value: Any) -> str:
    """Which branch of "a word or a structure" is meant; so errors speak of that branch alone."""
    return "word" if isinstance(value, str) else "structure"


Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
Temperature = Annotated[float, Field(ge=0.0, le=2.0)]
TopP = Annotated[float, Field(ge=0.0, le=1.0)]
TokenLimit = Annotated[int, Field(ge=256)]
IfBusy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""Ours: what is to be done while a run is active. SDKs send it with ``extra_body``."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


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


Tool = Annotated[FunctionTool | FileSearchTool | ForeignTool, Field(discriminator="type")]


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


class CodeInterpreterResources(Body):
    """Kept."""

    file_ids: Annotated[list[str], Field(max_length=20)] | None = None
    data_sources: list[dict[str, Any]] | None = None


class FileSearchResources(Body):
    """Kept."""

    vector_store_ids: Annotated[list[str], Field(max_length=1)] | None = None
    vector_stores: Annotated[list[dict[str, Any]], Field(max_length=1)] | None = None

    @model_validator(mode="after")
    def _either(self) -> "FileSearchResources":
        if self.vector_store_ids is not None and self.vector_stores is not None:
            raise ValueError("only one of 'vector_store_ids' and 'vector_stores' may be given.")
        return self


class ToolResources(Body):
    """Kept."""

    code_interpreter: CodeInterpreterResources | None = None
    file_search: FileSearchResources | None = None
    azure_ai_search: dict[str, Any] | None = None


# -- the form of answers ---------------------------------------------------------------------------


class JsonSchema(Body):
    """What the answer must look like."""

    name: str = Field(pattern="^[a-zA-Z0-9_-]+$", max_length=64)
    description: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class PlainFormat(Body):
    """Text, or any JSON object."""

    type: Literal["text", "json_object"]


class SchemaFormat(Body):
    """JSON of this schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[
    Annotated[Literal["auto", "none"], Tag("word")]
    | Annotated[
        Annotated[PlainFormat | SchemaFormat, Field(discriminator="type")], Tag("structure")
    ],
    Discriminator(word_or_structure),
]


class TruncationStrategy(Body):
    """How much of the thread the model is shown."""

    type: Literal["auto", "last_messages"]
    last_messages: Annotated[int, Field(ge=1)] | None = None
