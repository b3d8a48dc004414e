"""The settings, with a sentence where they are wrong."""

from pydantic import ValidationError

from cli.failure import Failure
from orchestrator.settings import Settings


def load_settings() -> Settings:
    """``Settings`` from the environment; ``Failure`` names the first variable that is wrong."""
    try:
        return Settings()
    except ValidationError as problem:
        first = problem.errors(include_input=False)[0]
        what = f"RUNSTATE_{first['loc'][0]}".upper() if first["loc"] else "The environment"
        raise Failure(f"{what} is wrong: {first['msg']}.") from None
