"""The Lua scripts, loaded by name and called by their SHA."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Final

from orchestrator.storage.pipelining import Argument, Command


@dataclass(frozen=True, slots=True)
class Script:
    """A script of the folder ``lua``; its header says what it takes and returns."""

    text: str
    sha: str

    def call(self, keys: Sequence[str], arguments: Sequence[Argument]) -> Command:
        """The command that runs it."""
        return ("EVALSHA", self.sha, len(keys), *keys, *arguments)


def _load(name: str) -> Script:
    text = files(__package__).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


COMMIT: Final = _load("commit")
TAKE_DUE: Final = _load("take_due")
DROP_DUE: Final = _load("drop_due")
RENEW: Final = _load("renew")
TAKE_ENTRIES: Final = _load("take_entries")
SAY: Final = _load("say")
KEEP: Final = _load("keep")
TAKE_SLOT: Final = _load("take_slot")

SCRIPTS: Final = (COMMIT, TAKE_DUE, DROP_DUE, RENEW, TAKE_ENTRIES, SAY, KEEP, TAKE_SLOT)
