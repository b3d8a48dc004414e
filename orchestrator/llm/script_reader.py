"""Where scripts come from: a file of the scripts folder, or a user message.

Whatever is wrong with one becomes a ``ModelError`` whose sentence names the place: for files
``server_error`` (the operator wrote them), for messages ``invalid_prompt``.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import from_json

from orchestrator.conversation import Conversation, Heard
from orchestrator.errors import LastErrorCode, ModelError
from orchestrator.llm.script import Script
from orchestrator.yaml_mistakes import mistakes
from orchestrator.yaml_text import NotYaml, YamlText, written

FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Names of scripts: no separators, no leading dot, so that none leads out of the folder."""


def read_script(folder: Path | None, name: str) -> Script:
    """The script NAME.yaml of the folder. Raises ``ModelError`` that says what is wrong where."""
    if folder is None:
        raise ModelError(f"scripted/{name} needs a folder of scripts: set RUNSTATE_SCRIPTS_DIR.")
    if not FILE_NAME.fullmatch(name):
        raise ModelError(f"scripted/{name}: a script's name has only letters, digits, '_-.'.")
    path = folder / f"{name}.yaml"
    try:
        stamp = path.stat()
        return _load(path, stamp.st_mtime_ns, stamp.st_size)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"{path.name} cannot be read from the scripts folder: {reason}.") from None


def find_script(conversation: Conversation) -> Script:
    """The newest user message that is a script. Raises ``ModelError`` if there is none."""
    for item in reversed(conversation.items):
        if isinstance(item, Heard) and (data := _as_script(item.text)) is not None:
            return _validated(data, _Source("The script in the message", "invalid_prompt"))
    raise ModelError(
        'scripted/inline plays a user message whose whole text is JSON like {"turns": [...]}; '
        "this thread has none.",
        last_error_code="invalid_prompt",
    )


class _Source:
    """Where a script came from, for sentences about it."""

    def __init__(self, name: str, code: LastErrorCode, text: YamlText | None = None) -> None:
        self.name = name
        self.code = code
        self._text = text

    def error(self, sentence: str) -> ModelError:
        return ModelError(f"{self.name}: {sentence}", last_error_code=self.code)

    def place(self, path: tuple[int | str, ...]) -> str:
        """Such as ``line 7, turns[2].tool_calls[0].name``."""
        line = f"line {self._text.line(path)}, " if self._text else ""
        return f"{line}{written(path) or 'the whole'}"


@lru_cache(maxsize=64)
def _load(path: Path, mtime_ns: int, size_bytes: int) -> Script:  # noqa: ARG001 (they are the key)
    text = YamlText(path.read_bytes())
    source = _Source(path.name, "server_error", text)
    try:
        data = text.load()
    except NotYaml as error:
        raise source.error(f"line {error.line}, {error}") from None
    return _validated(data, source)


def _as_script(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return None
    try:
        data = from_json(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) and isinstance(data.get("turns"), list) else None


def _validated(data: Any, source: _Source) -> Script:
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        (way, sentence), *others = mistakes(error, data)
        more = f" (and {len(others)} more)" if others else ""
        raise source.error(f"{source.place(way)}: {sentence}{more}.") from None
