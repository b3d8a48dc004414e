"""The tools of a module, by name."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from orchestrator.records import Isolation
from orchestrator.tools import Tool

Tools = Mapping[str, Tool[..., Any]]


class ToolsNotLoaded(Exception):
    """There is nothing to serve. The sentence is for whoever started the worker."""


def load_tools(source: str) -> Tools:
    """The tools that a module has at its top level, its imports included, by their names.

    ``source`` is a dotted name (``shop.tools``), looked for in the current folder too, or a file
    (``./tools.py``), whose folder then joins the import path. Raises ``ToolsNotLoaded``; what the
    module itself raises passes through.
    """
    found: dict[str, Tool[..., Any]] = {}
    for value in vars(_import(source)).values():
        if not isinstance(value, Tool):
            continue
        name = value.spec.name
        if found.setdefault(name, value) is not value:
            raise ToolsNotLoaded(f"{source} has two tools named {name}: rename one of them.")
    if not found:
        raise ToolsNotLoaded(f"{source} has no tools: mark functions with @tool.")
    return found


def for_queue(tools: Tools, queue: str) -> Tools:
    """Those of the tools that are served on this queue. Raises ``ToolsNotLoaded`` for none."""
    found = {name: tool for name, tool in tools.items() if tool.spec.queue == queue}
    if not found:
        served = ", ".join(queues(tools))
        raise ToolsNotLoaded(f"No tool is on the queue {queue}: these tools are on {served}.")
    isolation(found)
    return found


def isolation(tools: Tools) -> Isolation:
    """How the tools of one queue are run. Raises ``ToolsNotLoaded`` where they do not agree."""
    by_kind = {tool.spec.isolation: name for name, tool in tools.items()}
    if len(by_kind) > 1:
        raise ToolsNotLoaded(
            f"{by_kind['process']} wants a process for each call and {by_kind['inline']} runs"
            " inline: give them queues of their own."
        )
    return next(iter(by_kind))


def queues(tools: Tools) -> list[str]:
    """The queues of these tools, sorted."""
    return sorted({tool.spec.queue for tool in tools.values()})


def _import(source: str) -> ModuleType:
    try:
        if source.endswith(".py"):
            return _import_file(Path(source))
        sys.path.append(str(Path.cwd()))  # last: a folder of the user's never replaces a library
        return importlib.import_module(source)
    except ImportError as error:
        raise ToolsNotLoaded(f"The tools {source} cannot be imported: {error}.") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ToolsNotLoaded(f"There is no file {path} to take tools from.")
    _add_to_path(path.parent)
    # A name of its own, since the file may be called like a module that is in use (tools, json).
    name = f"tools_of_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - only other suffixes have none
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _add_to_path(folder: Path) -> None:
    """At the end, so that nothing that is installed is hidden by what lies there."""
    sys.path.append(str(folder.resolve()))
