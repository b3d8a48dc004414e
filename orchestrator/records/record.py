"""The manner of all documents."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict

Json = dict[str, Any]
Metadata = dict[str, str]


class Record(BaseModel):
    """The manner of all documents: frozen, tolerant of fields that a newer version wrote."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def but(self, **changes: Any) -> Self:
        """A copy with these fields changed (not validated: only our own code calls it)."""
        return self.model_copy(update=changes)
