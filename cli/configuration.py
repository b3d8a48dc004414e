"""The settings and the app file, with sentences where they are wrong."""

from collections.abc import Mapping
from pathlib import Path

from cli.failure import Failure, Hopeless
from cli.program import outcome, python
from orchestrator.app_file.reader import AppFileInvalid
from orchestrator.entry import Misconfigured, read_settings
from orchestrator.settings import Settings


def load_settings() -> Settings:
    """``Settings`` from the environment; ``Failure`` says all that is wrong there and in the app
    file.
    """
    try:
        return read_settings()
    except Misconfigured as problem:
        raise Hopeless(str(problem)) from None
    except AppFileInvalid as problem:
        raise Hopeless(f"the app file is wrong:\n{problem}") from None


async def check_app(path: Path, told: Mapping[str, str]) -> None:
    """``Failure`` says all that is wrong with this app file, and with the code that it names."""
    code, _, err = await outcome(python("orchestrator.app_file", str(path)), told)
    if code != 0:
        raise Failure(f"the app file is wrong:\n{err}")
