"""The manner of all documents."""

from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict

Json = dict[str, Any]
Metadata = dict[str, str]

DEFAULT_TENANT: Final = "default"
"""Whose everything is that was made without a key, or with one that has no name."""

EVERYBODY: Final = "*"
"""In the place of a tenant: all of them see it, and only the operator changes it."""


class Record(BaseModel):
    """The manner of all documents: frozen, tolerant of fields that a newer version wrote."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def but(self, **changes: Any) -> Self:
        """A copy with these fields changed (not validated: only our own code calls it)."""
        return self.model_copy(update=changes)
