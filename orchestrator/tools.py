"""The ``@tool`` decorator: it makes a function into a tool that models can call.

    from orchestrator import tool

    @tool(side_effects="none", timeout_s=10)
    def get_weather(city: str, days: int = 1) -> dict[str, float]:
        '''The temperatures of the coming days.

        Args:
            city: Name of the city, in English.
            days: How many days, at most 7.
        '''

What models are shown is made from the type hints and the docstring, so both are required reading.
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    get_type_hints,
    overload,
)

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from orchestrator import docstrings
from orchestrator.arguments import written
from orchestrator.records import Isolation, Json, NeedsApproval, SideEffects, ToolSpec

P = ParamSpec("P")
R = TypeVar("R")

QUEUES: Final = {"process": "tools", "inline": "tools-io"}
"""The queue of a tool that names none, by its isolation."""

MAX_CLEANUP_S: Final = 60.0

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAMED_KINDS: Final = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


class Options(TypedDict, total=False):
    """What an author may say about a tool; the defaults are those of ``ToolSpec``.

    ``side_effects``: may the tool be started again when its worker dies? ``none`` (it only reads)
    and ``idempotent`` (twice is as good as once): yes, up to ``max_attempts`` times; ``once``: no,
    and then ``on_unknown`` says whether the model is told, or the run waits for an operator.
    ``cleanup_s``: a function that is stopped has so long to end (``finally``) before it is killed.
    ``max_concurrency``: executions at once over all hosts; further calls wait.
    ``pin_result``: the output stays in the conversation, whatever is left out of a long one.
    ``retry_on``: exceptions after which the call may be started again, as after ``Retry``.
    ``isolation``: ``process`` (a fork for each call; the default of plain functions) or ``inline``
    (hundreds of calls on one event loop; the default of async functions, and for these only).
    ``approval``: with ``required``, no call starts before somebody has agreed to it, and one to
    which nobody has within ``approval_timeout_s`` is rejected.
    """

    name: str
    queue: str
    isolation: Isolation
    timeout_s: float
    cleanup_s: float
    max_concurrency: int
    side_effects: SideEffects
    max_attempts: int
    on_unknown: Literal["tell_model", "hold"]
    output_limit_bytes: int
    pin_result: bool
    retry_on: type[Exception] | tuple[type[Exception], ...]
    approval: NeedsApproval
    approval_timeout_s: float


class BadArguments(ValueError):
    """The arguments that a model wrote do not fit the tool. The text is meant for the model."""


class Tool(Generic[P, R]):
    """A function and what is published about it. Called directly, it is just the function."""

    def __init__(
        self,
        function: Callable[P, R],
        spec: ToolSpec,
        arguments: type[BaseModel],
        retry_on: type[Exception] | tuple[type[Exception], ...] = (),
    ) -> None:
        self.spec = spec
        self.retry_on = retry_on
        self.is_async = inspect.iscoroutinefunction(function)
        self._function = function
        self._arguments = arguments
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        return self._function(*args, **kwargs)

    def call(self, arguments: str | Json) -> Any:
        """Call the function with what a model wrote; an async one returns its coroutine.

        Empty arguments and ``null`` mean none. Raises ``BadArguments``.
        """
        try:
            given = self._validate(arguments)
        except ValidationError as error:
            raise BadArguments(_sentence(error)) from None
        function: Callable[..., Any] = self._function
        return function(**given)

    def _validate(self, arguments: str | Json) -> Json:
        if isinstance(arguments, str):
            found = self._arguments.model_validate_json(written(arguments))
        else:
            found = self._arguments.model_validate(arguments)
        fields = self._arguments.model_fields
        return {fields[key].alias or key: getattr(found, key) for key in found.model_fields_set}


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[Options]) -> Any:
    """Make a function into a tool: ``@tool``, or ``@tool(side_effects="none", …)``.

    Raises ``TypeError`` for a signature that has no JSON schema, ``ValueError`` for a wrong option.
    """
    if function is None:
        return lambda decorated: _make_tool(decorated, options)
    return _make_tool(function, options)


def _make_tool(function: Callable[P, R], options: Options) -> Tool[P, R]:
    name = options.get("name", getattr(function, "__name__", ""))
    unknown = sorted(options.keys() - Options.__annotations__.keys())
    if unknown:
        raise ValueError(f"Tool {name}: there is no option {', '.join(unknown)}.")
    doc = docstrings.parse(function.__doc__)
    arguments = _arguments_model(name, function, doc.parameters)
    given: Json = {**_placement(function, options), **options, "name": name}
    try:
        spec = ToolSpec(description=doc.description, parameters=_schema(name, arguments), **given)
    except ValidationError as error:
        raise ValueError(f"Tool {name}: {_sentence(error)}") from None
    _check(spec, is_async=inspect.iscoroutinefunction(function))
    return Tool(function, spec, arguments, options.get("retry_on", ()))


def _placement(function: Callable[..., Any], options: Options) -> Json:
    """Where a tool runs that does not say so: the two kinds of workers have queues of their own."""
    default = "inline" if inspect.iscoroutinefunction(function) else "process"
    isolation = options.get("isolation", default)
    return {"isolation": isolation, "queue": QUEUES.get(isolation)}


def _check(spec: ToolSpec, *, is_async: bool) -> None:
    rules = {
        "the name has 1 to 64 of: letters, digits, _ and -": _NAME.fullmatch(spec.name),
        "the queue has 1 to 64 of: letters, digits, _ and -": _NAME.fullmatch(spec.queue),
        "timeout_s is a number above 0": 0 < spec.timeout_s < math.inf,
        "cleanup_s is 0 to 60": 0 <= spec.cleanup_s <= MAX_CLEANUP_S,
        "max_concurrency is 1 or more": spec.max_concurrency is None or spec.max_concurrency >= 1,
        "approval_timeout_s is a number above 0": 0 < spec.approval_timeout_s < math.inf,
        "isolation 'inline' is for async functions": is_async or spec.isolation == "process",
        "max_attempts is 1 or more": spec.max_attempts >= 1,
        "output_limit_bytes is 1 or more": spec.output_limit_bytes >= 1,
    }
    for rule, is_kept in rules.items():
        if not is_kept:
            raise ValueError(f"Tool {spec.name!r}: {rule}.")


def _arguments_model(
    name: str, function: Callable[..., Any], texts: Mapping[str, str]
) -> type[BaseModel]:
    """A model with one field per parameter. Fields are numbered and the names are aliases, since a
    parameter may be named as no field of a model can be (``schema``, ``json``, ``_x``).
    """
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"Tool {name}: a type hint cannot be resolved: {error}.") from None
    fields: Json = {}
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        _check_parameter(name, parameter, hints)
        note = _note(parameter, texts.get(parameter.name))
        fields[f"p{index}"] = (Annotated[hints[parameter.name], note], note.default)
    try:
        return create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
    except PydanticUserError as error:
        raise _no_schema(name, error) from None


def _check_parameter(name: str, parameter: inspect.Parameter, hints: Mapping[str, object]) -> None:
    if parameter.kind not in _NAMED_KINDS:
        raise TypeError(
            f"Tool {name}: parameter {parameter} cannot be given by name, as models do it; "
            "use plain parameters."
        )
    if parameter.name not in hints:
        raise TypeError(
            f"Tool {name}: parameter {parameter.name} needs a type hint, "
            "because its JSON schema is made from it."
        )


def _note(parameter: inspect.Parameter, text: str | None) -> FieldInfo:
    given: Json = {"description": text} if text else {}
    if parameter.default is not inspect.Parameter.empty:
        given["default"] = parameter.default
    field: FieldInfo = Field(alias=parameter.name, **given)
    return field


class _PlainSchema(GenerateJsonSchema):
    """Without titles, which only repeat the names, and without defaults that have no JSON form."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _schema(name: str, arguments: type[BaseModel]) -> Json:
    try:
        schema = arguments.model_json_schema(schema_generator=_PlainSchema)
    except PydanticUserError as error:
        raise _no_schema(name, error) from None
    schema.pop("title", None)
    return {**schema, "properties": schema.get("properties", {})}


def _no_schema(name: str, error: PydanticUserError) -> TypeError:
    reason = error.message.splitlines()[0]
    return TypeError(f"Tool {name}: its type hints have no JSON schema: {reason}")


def _sentence(error: ValidationError) -> str:
    """All complaints in one line, by place, without the values."""
    complaints = (
        f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    )
    return "; ".join(complaints) + "."
