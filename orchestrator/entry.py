"""What every process begins with: its settings and its app file, or a refusal to start."""

import gc
import os
import sys
from typing import NoReturn

from pydantic import ValidationError
from pydantic_settings import SettingsError

from orchestrator.app_file.app import App
from orchestrator.app_file.reader import AppFileInvalid, load_app
from orchestrator.settings import Settings
from orchestrator.yaml_mistakes import sentence_of
from orchestrator.yaml_text import written


class Misconfigured(Exception):
    """A line for each variable that is wrong: ``RUNSTATE_PORT is wrong: Input should be …``."""


def read_settings() -> Settings:
    """As the environment and the app file say. Raises ``Misconfigured`` and ``AppFileInvalid``."""
    try:
        return Settings()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise Misconfigured(
            "\n".join(_complaint(one["loc"], sentence_of(one)) for one in found)
        ) from None
    except SettingsError as error:
        name = str(error).split('"')[1]  # it has no attribute for that
        raise Misconfigured(_complaint((name,), "It is not JSON")) from None


def settings_and_app() -> tuple[Settings, App]:
    """The same with the code that the app file names; ends the process with all that is wrong."""
    try:
        settings = read_settings()
    except (AppFileInvalid, Misconfigured) as error:
        give_up(str(error))
    try:
        return settings, load_app(settings.app_file)
    except AppFileInvalid as error:  # of a module, which may need what is not there yet
        sys.exit(str(error))


def give_up(sentence: str) -> NoReturn:
    """Ends the process with a code (78) that says: starting it again will not help."""
    sys.stderr.write(f"{sentence}\n")
    sys.exit(os.EX_CONFIG)


def settle() -> None:
    """Keeps all that is loaded by now out of the garbage collector: to look through it, over and
    over, takes 0.1 s, in which a process on one event loop serves nobody.
    """
    gc.collect()
    gc.freeze()


def _complaint(loc: tuple[int | str, ...], sentence: str) -> str:
    if not loc:
        return f"The environment is wrong: {sentence}."
    place = f" at {written(loc[1:])}" if loc[1:] else ""
    return f"RUNSTATE_{loc[0]}".upper() + f" is wrong{place}: {sentence}."
