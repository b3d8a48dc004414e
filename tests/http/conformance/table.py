"""docs/compatibility.md's table: which SDK can do what here.

``python -m tests.http.conformance.table`` writes it anew; the tours prove every mark in it.
"""

from typing import Final

from tests.house.tree import ROOT
from tests.http.conformance.operations import OPERATIONS
from tests.http.conformance.sdks import SDKS

DOCUMENT: Final = ROOT / "docs" / "compatibility.md"
STREAMED: Final = (
    "POST /threads/runs",
    "POST /threads/{thread_id}/runs",
    "POST /threads/{thread_id}/runs/{run_id}/submit_tool_outputs",
)
"""What ``tests/http/streams/test_sdks.py`` plays with the stream helper of every SDK."""
BEGIN: Final = "<!-- operations: begin -->\n"
END: Final = "<!-- operations: end -->"


def table() -> str:
    """A row for each operation, a column for each SDK, as Markdown."""
    head = ["operation", *map(str, SDKS)]
    rows = [
        [f"`{operation}`", *("-" if operation in sdk.lacks else "✓" for sdk in SDKS)]
        for operation in OPERATIONS
    ]
    rows += [
        [
            f"`{operation}`, streamed",
            *("-" if operation in sdk.streams_not else "✓" for sdk in SDKS),
        ]
        for operation in STREAMED
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written() -> str:
    """The table as the document has it now."""
    return DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
