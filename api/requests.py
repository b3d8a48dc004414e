"""What clients may send: one model per operation. ``null`` stands for the default."""

from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag

from api.fields import (
    EachNameOnce,
    Executor,
    IfBusy,
    TokenLimit,
    Tool,
    ToolChoice,
    TruncationStrategy,
)
from orchestrator.fields import (
    AssistantValues,
    Body,
    Effort,
    Metadata,
    ModelName,
    ResponseFormat,
    Temperature,
    Text,
    ToolResources,
    TopP,
    word_or_structure,
)

MAX_OUTPUT_BYTES: Final = 512 * 1024


# -- assistants ------------------------------------------------------------------------------------


class AssistantFields(AssistantValues):
    """What creating and changing an assistant have in common."""

    tools: Annotated[list[Tool], Field(max_length=128), EachNameOnce] | None = None


class CreateAssistant(AssistantFields):
    """POST /assistants."""

    model: ModelName


class ModifyAssistant(AssistantFields):
    """POST /assistants/{id}: an absent field stays, ``null`` brings the default back."""

    model: ModelName = ""


# -- threads and messages --------------------------------------------------------------------------


class TextPart(Body):
    """Words."""

    type: Literal["text"]
    text: Text


class ImageUrl(Body):
    """Where the picture is."""

    url: str
    detail: Literal["auto", "low", "high"] = "auto"


class ImageUrlPart(Body):
    """A picture by address."""

    type: Literal["image_url"]
    image_url: ImageUrl


class ImageFile(Body):
    """Which file the picture is."""

    file_id: str
    detail: Literal["auto", "low", "high"] = "auto"


class ImageFilePart(Body):
    """A picture by file."""

    type: Literal["image_file"]
    image_file: ImageFile


Part = Annotated[TextPart | ImageUrlPart | ImageFilePart, Field(discriminator="type")]
Content = Annotated[
    Annotated[Text, Tag("word")] | Annotated[list[Part], Field(min_length=1), Tag("structure")],
    Discriminator(word_or_structure),
]


class AttachmentTool(Body):
    """Kept."""

    type: Literal["code_interpreter", "file_search"]


class Attachment(Body):
    """Kept."""

    file_id: str | None = None
    data_source: dict[str, Any] | None = None
    tools: list[AttachmentTool] | None = None


class CreateMessage(Body):
    """A message of a new thread or run."""

    role: Literal["user", "assistant"]
    content: Content
    attachments: list[Attachment] | None = None
    metadata: Metadata | None = None


class AddMessage(CreateMessage):
    """POST /threads/{id}/messages."""

    if_busy: IfBusy | None = None


class Changes(Body):
    """Bodies whose fields replace stored ones as a whole."""

    metadata: Metadata | None = None

    def changes(self) -> dict[str, Any]:
        """The stored fields to replace; metadata that is ``null`` is empty."""
        given = self.model_dump(exclude_unset=True, include={"metadata", "tool_resources"})
        return given | ({"metadata": given["metadata"] or {}} if "metadata" in given else {})


class ModifyMetadata(Changes):
    """POST to a message or a run: only the metadata may change."""


class ModifyThread(Changes):
    """POST /threads/{id}."""

    tool_resources: ToolResources | None = None


class CreateThread(ModifyThread):
    """POST /threads. The body may be missing altogether."""

    messages: list[CreateMessage] | None = None


# -- runs ------------------------------------------------------------------------------------------


class RunFields(Body):
    """What the two ways to create a run have in common; absent fields come from the assistant."""

    assistant_id: str
    model: ModelName | None = None
    reasoning_effort: Effort | None = None
    instructions: Text | None = None
    tools: Annotated[list[Tool], Field(max_length=20), EachNameOnce] | None = None
    tool_resources: ToolResources | None = None
    metadata: Metadata | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    stream: bool | None = None
    max_prompt_tokens: TokenLimit | None = None
    max_completion_tokens: TokenLimit | None = None
    truncation_strategy: TruncationStrategy | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    executor: Executor | None = None


class CreateRun(RunFields):
    """POST /threads/{id}/runs."""

    if_busy: IfBusy | None = None
    additional_instructions: Text | None = None
    additional_messages: list[CreateMessage] | None = None


class ReplayRun(Body):
    """POST …/replay: what is to be another than in the recorded run."""

    model: ModelName | None = None
    instructions: Text | None = None
    tools: Annotated[list[Tool], Field(max_length=20), EachNameOnce] | None = None
    metadata: Metadata | None = None


class CreateThreadAndRun(RunFields):
    """POST /threads/runs."""

    thread: CreateThread | None = None


class ToolOutput(Body):
    """The answer to one call; an empty string is an answer."""

    tool_call_id: str
    output: str


class SubmitToolOutputs(Body):
    """POST …/submit_tool_outputs: all outputs that the run waits for, in one request."""

    tool_outputs: list[ToolOutput]
    stream: bool | None = None


class ToolApproval(Body):
    """The answer to one call that waits to be approved. ``headers`` have no meaning here."""

    tool_call_id: str
    approve: bool
    headers: dict[str, str] | None = None


class SubmitToolApprovals(Body):
    """POST …/submit_tool_outputs, for calls that wait to be approved: one or several of them."""

    tool_approvals: Annotated[list[ToolApproval], Field(min_length=1)]
    stream: bool | None = None


def outputs_or_approvals(value: Any) -> str:
    """Which of the two bodies is meant."""
    is_approval = isinstance(value, SubmitToolApprovals) or (
        isinstance(value, dict) and "tool_approvals" in value
    )
    return "approvals" if is_approval else "outputs"


SubmitToolAnswers = Annotated[
    Annotated[SubmitToolOutputs, Tag("outputs")] | Annotated[SubmitToolApprovals, Tag("approvals")],
    Discriminator(outputs_or_approvals),
]
