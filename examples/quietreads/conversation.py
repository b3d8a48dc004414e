"""The assistant, and a conversation with it that plays on scripted models or on real ones."""

from pathlib import Path
from typing import Any, Final

from examples.quietreads import tools

TOOLS: Final = (
    tools.get_user_profile,
    tools.get_want_to_read,
    tools.get_recently_finished,
    tools.get_reading_notes,
    tools.get_currently_reading,
)

SCRIPTS: Final = Path(__file__).parent / "scripts"

ASSISTANT: Final[dict[str, Any]] = {
    "name": "QuietReads",
    "model": "scripted/quietreads-next",
    "instructions": (
        "You help one reader to choose books and to remember what they have read. Look things up "
        "before you answer, several at once where they do not depend on each other. Recommend one "
        "book, say in a sentence why it fits, and keep to the reader's own list. If the notes do "
        "not tell, say so."
    ),
    "tools": [
        {
            "type": "function",
            "function": {
                "name": tool.spec.name,
                "description": tool.spec.description,
                "parameters": tool.spec.parameters,
            },
        }
        for tool in TOOLS
    ],
}
"""The body of ``POST /v1/assistants``."""

QUESTIONS: Final[tuple[tuple[str, str], ...]] = (
    ("What should I read next?", "scripted/quietreads-next"),
    ("Something like the last one I finished, but shorter?", "scripted/quietreads-shorter"),
    ("What did I think of The Remains of the Day?", "scripted/quietreads-notes"),
)
"""Each question of the thread, and the scripted model that answers it."""
