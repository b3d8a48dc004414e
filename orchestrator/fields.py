"""The values of an assistant, wherever they are written: in a request, or in the app file.

What we keep without acting on it (resources of file search and code interpreter) passes through as
it came.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

MAX_TEXT_CHARS: Final = 256_000


class Body(BaseModel):
    """The manner of what people write: unknown fields are refused, types are not bent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def given(self) -> dict[str, Any]:
        """What they wrote, as JSON values under the wire's names."""
        return self.model_dump(exclude_unset=True, by_alias=True)


def word_or_structure(value: Any) -> str:
    """Which branch of "a word or a structure" is meant; so errors speak of that branch alone."""
    return "word" if isinstance(value, str) else "structure"


Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
ModelName = Annotated[str, Field(min_length=1)]
Temperature = Annotated[float, Field(ge=0.0, le=2.0)]
TopP = Annotated[float, Field(ge=0.0, le=1.0)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


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


# -- assistants ------------------------------------------------------------------------------------


class AssistantValues(Body):
    """An assistant without its tools. ``null`` stands for the default."""

    name: Annotated[str, Field(max_length=256)] | None = None
    description: Annotated[str, Field(max_length=512)] | None = None
    instructions: Text | None = None
    reasoning_effort: Effort | None = None
    tool_resources: ToolResources | None = None
    metadata: Metadata | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    response_format: ResponseFormat | None = None
