"""Commands that documents and deployments name, held against the command line itself."""

from collections.abc import Sequence

import typer
from typer.core import TyperGroup

from cli.main import app


def parse(words: Sequence[str]) -> None:
    """Fails if ``runstate`` does not know these words; starts nothing."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    with group.make_context("runstate", list(words)) as context:
        name, command, rest = group.resolve_command(context, list(words))
        assert command is not None
        command.make_context(name, rest, parent=context)
