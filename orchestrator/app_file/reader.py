"""Reads an app file. What is wrong with it is told all at once, each time with its line."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from orchestrator.app_file.app import App
from orchestrator.app_file.code import Code
from orchestrator.app_file.document import AppFile, Checks, FunctionEntry
from orchestrator.server_tools import named_twice
from orchestrator.yaml_mistakes import Mistake, in_lines, mistakes
from orchestrator.yaml_text import NotYaml, YamlText


class AppFileInvalid(Exception):
    """A line for each thing that is wrong: ``runstate.yaml:12: limits.max_turn: There is no …``."""


def read_app_file(path: Path) -> AppFile:
    """What the file says, without a look at the code. Raises ``AppFileInvalid``."""
    try:
        return AppFile.model_validate(_read(path).data)
    except ValidationError:
        return load_app(path).file  # which says whatever else is wrong, too


def load_app(path: Path | None) -> App:
    """The file with the code that it refers to, if there is a file. Raises ``AppFileInvalid``."""
    if path is None:
        return App()
    found = _read(path)
    code = Code(path.parent)
    table = found.data.get("tools") if isinstance(found.data, dict) else None
    checks = Checks(code, frozenset(table if isinstance(table, dict) else ()))
    problems: list[Mistake] = []
    try:
        file = AppFile.model_validate(found.data, context=checks)
    except ValidationError as error:
        problems = mistakes(error, found.data)
        file = _sound(found.data, problems)
    app = App(file, code)
    problems += [
        *_wrong_functions(file, code),
        *_wrong_folder(file, path.parent),
        *_tools_of_one_name(app),
    ]
    if problems:
        raise AppFileInvalid(in_lines(path, found.text, problems))
    return app


@dataclass(frozen=True, slots=True)
class _Found:
    text: YamlText
    data: Any


def _read(path: Path) -> _Found:
    try:
        text = YamlText(path.read_bytes())
        data = text.load()
    except OSError as error:
        raise AppFileInvalid(f"{path} cannot be read: {error.strerror or error}.") from None
    except NotYaml as error:
        raise AppFileInvalid(f"{path}:{error.line}: {error}.") from None
    if isinstance(data, dict):  # a section of which all is commented out is none
        data = {name: section for name, section in data.items() if section is not None}
    return _Found(text, {} if data is None else data)


def _sound(data: Any, problems: Iterable[Mistake]) -> AppFile:
    """The sections in which nothing is wrong yet."""
    wrong = {way[0] for way, _ in problems if way}
    sections = data if isinstance(data, dict) else {}
    return AppFile.model_validate({k: v for k, v in sections.items() if k not in wrong})


def _wrong_functions(file: AppFile, code: Code) -> Iterator[Mistake]:
    if not code.is_complete:
        return
    for name, entry in file.tools.items():
        if not isinstance(entry, FunctionEntry):
            continue
        if name not in code.tools and entry.parameters is None:
            sentence = f"No module has a tool {name}; one of clients needs its 'parameters'"
            yield ("tools", name), sentence
        if name in code.tools and (entry.parameters or entry.description):
            yield ("tools", name), f"What models read of {name} is written in its module"


def _wrong_folder(file: AppFile, folder: Path) -> Iterator[Mistake]:
    scripts_dir = file.models.scripts_dir
    if scripts_dir is not None and not (folder / scripts_dir).is_dir():
        yield ("models", "scripts_dir"), f"There is no folder {folder / scripts_dir}"


def _tools_of_one_name(app: App) -> Iterator[Mistake]:
    """Models know a server-side tool by its type, whatever the file calls it."""
    for place, assistant in enumerate(app.file.assistants):
        if twice := named_twice(tuple(app.tools_of(assistant))):
            sentence = f"To models, more than one of these is named {', '.join(twice)}"
            yield ("assistants", place, "tools"), sentence
