"""YAML that people write, with the line of every value, for sentences about what is wrong."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import yaml

Path = Sequence[int | str]
"""The way to a value: ``("turns", 2, "text")``."""


def written(path: Path) -> str:
    """The way as people write it: ``turns[2].text``."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return steps.removeprefix(".")


class NotYaml(ValueError):
    """It cannot be read at all. ``line`` counts from 1."""

    def __init__(self, sentence: str, line: int) -> None:
        super().__init__(sentence)
        self.line = line


class YamlText:
    """One document. Dates stay text (``2026-12-01``), since JSON has none, and so do ``on`` and
    ``no``; a key is given once.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text

    def load(self) -> Any:
        """Its value, of what JSON has. Raises ``NotYaml``."""
        try:
            return yaml.load(self._text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise NotYaml(f"not YAML: {error.problem}", mark.line + 1 if mark else 1) from None
        except yaml.YAMLError as error:
            raise NotYaml(f"not YAML: {' '.join(str(error).split())}", 1) from None
        except RecursionError:
            raise NotYaml("it is nested too deeply", 1) from None

    def line(self, path: Path) -> int:
        """Where the value is, or its key, or as much of the way as there is."""
        node = self._root
        mark = node.start_mark if node else None
        for step in path:
            found = _child(node, step)
            if found is not None:
                mark, node = found
        return mark.line + 1 if mark else 1

    @cached_property
    def _root(self) -> yaml.Node | None:
        return yaml.compose(self._text, Loader=yaml.SafeLoader)


_BOOL: Final = "tag:yaml.org,2002:bool"
_NOT_JSON: Final = {
    f"tag:yaml.org,2002:{kind}" for kind in ("binary", "omap", "pairs", "set", "timestamp")
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 (the name is PyYAML's)
        first: [pair for pair in pairs if pair[0] not in {_BOOL, *_NOT_JSON}]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag not in _NOT_JSON
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As ever, but the last of several equal keys does not win."""
        seen = set()
        keys = (key for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for key in keys:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                problem = f"the key {key.value} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(_BOOL, re.compile(r"(?:true|True|false|False)$"), list("tTfF"))


def _child(node: yaml.Node | None, step: int | str) -> tuple[yaml.Mark, yaml.Node] | None:
    match node, step:
        case yaml.SequenceNode(value=items), int() if step < len(items):
            return items[step].start_mark, items[step]
        case yaml.MappingNode(value=pairs), str():
            found = ((key.start_mark, value) for key, value in pairs if key.value == step)
            return next(found, None)
    return None
