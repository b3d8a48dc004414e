"""What holds for every file of the tree."""

import ast
import re
from pathlib import Path

from tests.house.tree import ROOT, files

FOREIGN = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.org|deb\.debian\.org|/(?:work|opt|home|root)/[a-z]+/"
)
"""Hosts of package registries, and places that exist on one machine only."""

SHAPELESS = {"utils", "common", "helpers", "base", "models", "misc"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_names_a_registry_or_a_place_on_one_machine() -> None:
    found = {
        name(path): match[0]
        for path in files()
        if (match := FOREIGN.search(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert found == {}


def test_no_source_file_is_longer_than_500_lines() -> None:
    lengths = {name(p): len(p.read_text().splitlines()) for p in files("*.py", "*.lua")}
    assert {file: lines for file, lines in lengths.items() if lines > 500} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    lengths = {
        f"{name(path)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in files("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {function: lines for function, lines in lengths.items() if lines > 60} == {}


def test_a_file_is_named_after_what_it_holds() -> None:
    assert [
        name(path) for path in files("*.py") if SHAPELESS & set(path.with_suffix("").parts)
    ] == []


def test_every_module_with_code_begins_with_a_docstring() -> None:
    modules = [(path, ast.parse(path.read_text())) for path in files("*.py")]
    assert [name(path) for path, tree in modules if tree.body and not ast.get_docstring(tree)] == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{name(path)}: {target}"
        for path in files("*.md")
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text())
        if not (path.parent / target).exists()
    ]
    assert broken == []
