"""Texts that refer to what was said and answered before, such as ``{{ outputs.get_user.name }}``.

Known names: ``outputs.TOOL`` (the newest output of that tool), ``calls[0]`` (all outputs of the
conversation in order) and ``user`` (the newest user text). Outputs that are JSON are read as JSON.
A text without ``{{`` is left alone.

Scripts from the scripts folder may use all of Jinja's sandbox. Scripts from messages may only look
things up: with loops, filters or arithmetic one message could keep the whole engine busy.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateError, Undefined, nodes
from jinja2.environment import TemplateExpression
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic_core import from_json

from orchestrator.conversation import Answered, Conversation, Heard
from orchestrator.errors import ModelError

MARK: Final = "{{"

RENDERED_LIMIT_CHARS: Final = 262_144
"""What one turn may render: as much as a message may hold."""

LOOKUP_LIMIT_CHARS: Final = 4_000
"""Templates that one turn of a message's script may have: compiling these takes 35 ms."""

LOOKUPS: Final = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Const,
    nodes.Neg,
)
"""What scripts from messages may use."""

RENDER_ERRORS: Final = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What evaluating a wrong template may raise: besides Jinja's own, all that an expression can."""


class Renderer:
    """Renders the texts of one turn, within the limits of one turn. Raises ``ModelError``."""

    def __init__(self, conversation: Conversation, *, may_compute: bool) -> None:
        self._conversation = conversation
        self._may_compute = may_compute
        self._facts: Mapping[str, Any] | None = None
        self._rendered_chars = 0
        self._template_chars = 0

    def text(self, template: str) -> str:
        """The template with its references filled in; JSON for what is not text."""
        if MARK not in template:
            return template
        with self._faults_named(template):
            return self._joined(self._compiled(template).template)

    def value(self, template: Any) -> Any:
        """The same within a JSON value; a string that is one reference keeps the type it finds."""
        match template:
            case dict():
                return {key: self.value(item) for key, item in template.items()}
            case list():
                return [self.value(item) for item in template]
            case str() if MARK in template:
                return self._native(template)
            case _:
                return template

    def _native(self, template: str) -> Any:
        with self._faults_named(template):
            compiled = self._compiled(template)
            if compiled.reference is None:
                return self._joined(compiled.template)
            value = compiled.reference(self._known())
            self._count(_as_text(value))
            return value

    def _compiled(self, template: str) -> "_Compiled":
        if not self._may_compute:
            self._template_chars += len(template)
            if self._template_chars > LOOKUP_LIMIT_CHARS:
                raise SecurityError(f"more than {LOOKUP_LIMIT_CHARS} characters of templates")
        return _compiled(template, self._may_compute)

    def _joined(self, template: Template) -> str:
        pieces = []
        for piece in template.generate(self._known()):
            self._count(piece)
            pieces.append(piece)
        return "".join(pieces)

    def _count(self, piece: str) -> None:
        self._rendered_chars += len(piece)
        if self._rendered_chars > RENDERED_LIMIT_CHARS:
            raise SecurityError(f"the turn renders more than {RENDERED_LIMIT_CHARS} characters")

    def _known(self) -> Mapping[str, Any]:
        if self._facts is None:
            self._facts = facts(self._conversation)
        return self._facts

    @contextmanager
    def _faults_named(self, template: str) -> Iterator[None]:
        try:
            yield
        except RENDER_ERRORS as error:
            shown = template if len(template) <= 80 else f"{template[:80]}…"
            hint = ""
            if isinstance(error, UndefinedError):
                tools = ", ".join(self._known()["outputs"]) or "none"
                hint = f" (tools with outputs so far: {tools})"
            raise ModelError(
                f"The script's text {shown!r} cannot be filled in: {error}{hint}.",
                last_error_code="server_error" if self._may_compute else "invalid_prompt",
            ) from error


def facts(conversation: Conversation) -> dict[str, Any]:
    """What templates may refer to."""
    answers = [
        (item.name, _as_data(item.text))
        for item in conversation.items
        if isinstance(item, Answered)
    ]
    return {
        "outputs": dict(answers),
        "calls": [data for _, data in answers],
        "user": newest_user_text(conversation),
    }


def newest_user_text(conversation: Conversation) -> str:
    """What the user said last; empty if nothing."""
    heard = (item.text for item in reversed(conversation.items) if isinstance(item, Heard))
    return next(heard, "")


class _Environment(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        """Keys only, where there are keys: ``outputs.search.items`` is never a method."""
        if isinstance(obj, dict):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


def _as_text(value: Any) -> str:
    if isinstance(value, str | Undefined):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


_ENVIRONMENT: Final = _Environment(
    undefined=StrictUndefined,
    autoescape=False,
    finalize=_as_text,
    keep_trailing_newline=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _as_data(text: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class _Compiled:
    """``reference`` is set if the template is nothing but one."""

    template: Template
    reference: TemplateExpression | None


@lru_cache(maxsize=256)
def _compiled(source: str, may_compute: bool) -> _Compiled:
    parsed = _ENVIRONMENT.parse(source)
    if not may_compute:
        _check_lookups(parsed)  # before compiling, which computes constants
    reference = None
    match parsed.body:
        case [nodes.Output(nodes=[single])] if not isinstance(single, nodes.TemplateData):
            expression = source.strip().removeprefix("{{").removesuffix("}}")
            reference = _ENVIRONMENT.compile_expression(expression, undefined_to_none=False)
    return _Compiled(_ENVIRONMENT.from_string(source), reference)


def _check_lookups(node: nodes.Node) -> None:
    if not isinstance(node, LOOKUPS):
        raise SecurityError(
            f"a script in a message may only look things up ({type(node).__name__} is more)"
        )
    for child in node.iter_child_nodes():
        _check_lookups(child)
