"""What can be imported: objects as the API shows them. Fields that we do not know are left out."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from api.requests import AssistantFields, Attachment, ImageFilePart, ImageUrlPart, ModifyThread
from orchestrator.fields import Body, Metadata, ModelName, Text
from orchestrator.records import Assistant, Message, MessageStatus, Thread

Id = Annotated[str, Field(pattern="^[a-zA-Z0-9_-]+$", max_length=64)]
Seconds = Annotated[int, Field(ge=1, le=253_402_300_799)]
"""Unix time up to the year 9999; milliseconds are refused as too large."""

_TOLERANT = ConfigDict(extra="ignore")


class ImportedAssistant(AssistantFields):
    """An assistant."""

    model_config = _TOLERANT

    object: Literal["assistant"]
    id: Id
    created_at: Seconds
    model: ModelName

    def record(self) -> Assistant:
        """The same as it is stored."""
        given = self.given()
        lists = {"tools": given.get("tools") or (), "metadata": given.get("metadata") or {}}
        fields = given | lists | {"created_ms": self.created_at * 1000}
        return Assistant.model_validate(fields)


class ImportedThread(ModifyThread):
    """A thread, without its messages."""

    model_config = _TOLERANT

    object: Literal["thread"]
    id: Id
    created_at: Seconds

    def record(self) -> Thread:
        """The same as it is stored."""
        return Thread(
            id=self.id,
            created_ms=self.created_at * 1000,
            metadata=self.metadata or {},
            tool_resources=self.given().get("tool_resources") or None,
        )


class ShownText(Body):
    """Words, and what they refer to."""

    value: Text
    annotations: list[dict[str, Any]] = Field([])


class ShownTextPart(Body):
    """A text part as the API shows it."""

    type: Literal["text"]
    text: ShownText


class RefusalPart(Body):
    """The model would not."""

    type: Literal["refusal"]
    refusal: Text


ShownPart = Annotated[
    ShownTextPart | ImageUrlPart | ImageFilePart | RefusalPart, Field(discriminator="type")
]


class IncompleteDetails(Body):
    """Why a message breaks off."""

    reason: str


class ImportedMessage(Body):
    """A message. One that was still being written cannot be imported."""

    model_config = _TOLERANT

    object: Literal["thread.message"]
    id: Id
    thread_id: Id
    created_at: Seconds
    role: Literal["user", "assistant"]
    content: list[ShownPart]
    status: Literal["completed", "incomplete"] | None = None
    incomplete_details: IncompleteDetails | None = None
    completed_at: Seconds | None = None
    incomplete_at: Seconds | None = None
    assistant_id: str | None = None
    run_id: str | None = None
    attachments: list[Attachment] | None = None
    metadata: Metadata | None = None

    def record(self) -> Message:
        """The same as it is stored; its thread gives it its place."""
        return Message(
            seq=0,
            id=self.id,
            thread_id=self.thread_id,
            created_ms=self.created_at * 1000,
            role=self.role,
            content=tuple(part.model_dump() for part in self.content),
            attachments=tuple(part.given() for part in self.attachments or ()),
            metadata=self.metadata or {},
            assistant_id=self.assistant_id,
            run_id=self.run_id,
            status=MessageStatus(self.status or "completed"),
            incomplete_reason=self.incomplete_details and self.incomplete_details.reason,
            completed_ms=_ms(self.completed_at),
            incomplete_ms=_ms(self.incomplete_at),
        )


def _ms(time_s: int | None) -> int | None:
    return None if time_s is None else time_s * 1000
