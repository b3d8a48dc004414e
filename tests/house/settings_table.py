"""The table of settings in docs/production.md, drawn from the class that reads them.

``python -m tests.house.settings_table`` writes it anew.
"""

from typing import Any, Final

from pydantic import SecretStr

from orchestrator.settings import Settings
from tests.house.tree import ROOT

DOCUMENT: Final = ROOT / "docs" / "production.md"
BEGIN: Final = "<!-- settings: begin -->\n"
END: Final = "<!-- settings: end -->"


def table() -> str:
    """Variable, default and meaning of every setting, as Markdown."""
    rows = [
        f"| `RUNSTATE_{name.upper()}` | {_shown(field.default)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| variable | default | what it decides |", "|---|---|---|", *rows, ""])


def written() -> str:
    """The table as the document has it now."""
    return DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]


def _shown(value: Any) -> str:
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None or value == ():
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
