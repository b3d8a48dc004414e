"""A conversation with the assistant that plays on scripted models or on real ones."""

from typing import Final

ASSISTANT: Final = "QuietReads"
"""The name of the assistant, which the app file describes."""

QUESTIONS: Final[tuple[tuple[str, str], ...]] = (
    ("What should I read next?", "scripted/quietreads-next"),
    ("Something like the last one I finished, but shorter?", "scripted/quietreads-shorter"),
    ("What did I think of The Remains of the Day?", "scripted/quietreads-notes"),
)
"""Each question of the thread, and the scripted model that answers it."""
