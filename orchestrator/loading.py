"""What users have written: the tools of their modules, and other functions, by name.

A module is a dotted name (``shop.tools``), looked for in the current folder too, or a file
(``./tools.py``), whose folder then joins the import path.
"""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from orchestrator.tools import Tool

Tools = Mapping[str, Tool[..., Any]]

_NOT_USERS: Final = (Path(__file__).parent, Path(importlib.__file__).parent)
"""What is always on the way to a user's module."""


class NotLoaded(Exception):
    """It is not there, or is something else. The sentence is for whoever named it."""


def load_tools(*sources: str) -> Tools:
    """The tools that these modules have at their top level, their imports included, by name. Raises
    ``NotLoaded``.
    """
    found: dict[str, Tool[..., Any]] = {}
    for source in sources:
        tools = [value for value in vars(_import(source)).values() if isinstance(value, Tool)]
        if not tools:
            raise NotLoaded(f"{source} has no tools: mark functions with @tool.")
        _add(found, tools, " and ".join(sources))
    return found


def load_function(source: str) -> Callable[..., Any]:
    """The function ``MODULE:NAME``. Raises ``NotLoaded``."""
    module, colon, name = source.rpartition(":")
    if not colon:
        raise NotLoaded(f"{source} names no function: write MODULE:NAME.")
    found = getattr(_import(module), name, None)
    if not callable(found):
        raise NotLoaded(f"{module} has no function {name}.")
    function: Callable[..., Any] = found
    return function


def _add(found: dict[str, Tool[..., Any]], tools: Iterable[Tool[..., Any]], where: str) -> None:
    for tool in tools:
        name = tool.spec.name
        if found.setdefault(name, tool) is not tool:
            raise NotLoaded(f"{where} has two tools named {name}: rename one of them.")


def _import(source: str) -> ModuleType:
    try:
        if source.endswith(".py"):
            return _import_file(Path(source).resolve())
        _add_to_path(Path.cwd())
        return importlib.import_module(source)
    except NotLoaded:
        raise
    except ImportError as error:
        raise NotLoaded(f"{source} cannot be imported: {error}.") from error
    except (Exception, SystemExit) as error:
        raise NotLoaded(f"{source} cannot be imported: {_words(error)}.") from error


def _words(error: BaseException) -> str:
    """What a module raised, on one line, and where in the user's code."""
    words = " ".join(f"{type(error).__name__}: {error}".rstrip(".").split())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame)]
    if isinstance(error, SyntaxError) or not frames:
        return words
    return f"{words} ({frames[-1].filename}, line {frames[-1].lineno})"


def _is_users(frame: traceback.FrameSummary) -> bool:
    path = Path(frame.filename)
    return path.is_file() and not any(path.is_relative_to(folder) for folder in _NOT_USERS)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NotLoaded(f"There is no file {path}.")
    _add_to_path(path.parent)
    # A name of its own, since the file may be called like a module that is in use (tools, json).
    name = f"tools_of_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - only other suffixes have none
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _add_to_path(folder: Path) -> None:
    """At the end, so that nothing that is installed is hidden by what lies there."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
