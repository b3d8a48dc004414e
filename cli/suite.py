"""The file of ``runstate eval``: cases, what is expected of each, and outputs in the tools' place.

docs/evaluation.md shows every field at work.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from jsonschema_rs import ValidationError as SchemaError
from jsonschema_rs import validator_for
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveFloat,
    ValidationError,
)

from cli.failure import Failure
from orchestrator.yaml_mistakes import Mistake, in_lines, mistakes
from orchestrator.yaml_text import NotYaml, YamlText


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"This is no regular expression: {error}") from None
    return value


def _schema(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        validator_for(value, offline=True)
    except (SchemaError, ValueError) as error:
        raise ValueError(f"This is no JSON schema: {str(error).splitlines()[0]}") from None
    return value


def _assistant(value: Any) -> Any:
    if isinstance(value, str | dict):
        return value
    raise ValueError("An assistant is an id, a name, or its body")


Arguments = dict[str, JsonValue]
Name = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[Name], BeforeValidator(_listed)]
Assistant = Annotated[str | dict[str, JsonValue], BeforeValidator(_assistant)]


class ExpectedCall(_Part):
    """A call that must be made; ``arguments`` are those that it must have, among others."""

    name: Name
    arguments: Arguments = {}


class CannedOutput(_Part):
    """What answers a call of this tool that has these arguments among others."""

    tool: Name
    arguments: Arguments = {}
    output: JsonValue

    def fits(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it answers this call."""
        return name == self.tool and self.arguments.items() <= arguments.items()


class Answer(_Part):
    """Checks on the last words. ``equals`` anything but a text: the answer is read as JSON."""

    contains: Texts = []
    not_contains: Texts = []
    matches: Annotated[str, AfterValidator(_pattern)] | None = None
    equals: JsonValue = None
    json_schema: Annotated[dict[str, JsonValue], AfterValidator(_schema)] | None = None


class Expect(_Part):
    """What must hold of a play. ``order`` of the tools: any, as listed with others in between, or
    exact: these calls and no others.
    """

    status: Literal["completed", "incomplete", "failed", "cancelled", "expired"] = "completed"
    tools: list[Annotated[ExpectedCall, BeforeValidator(_named)]] = []
    order: Literal["any", "listed", "exact"] = "any"
    forbidden_tools: Texts = []
    answer: Answer = Answer()
    max_turns: NonNegativeInt | None = None
    max_tokens: NonNegativeInt | None = None
    max_seconds: PositiveFloat | None = None


class Case(_Part):
    """One conversation. ``input``: what the user says, each in a run of its own; ``assistant``: an
    id, a name, or the body of one that is made for the evaluation. With ``outputs`` no worker is
    asked, even if there are none.
    """

    name: Name
    input: Annotated[Texts, Field(min_length=1)]
    assistant: Assistant | None = None
    model: Name | None = None
    instructions: str | None = None
    outputs: list[CannedOutput] | None = None
    expect: Expect = Expect()


class Suite(_Part):
    """The whole file; ``assistant`` and ``model`` are those of cases that name none."""

    assistant: Assistant | None = None
    model: Name | None = None
    cases: Annotated[list[Case], Field(min_length=1)]


def read_suite(file: Path) -> Suite:
    """The suite in the file. ``Failure`` says all that is wrong with it, with the lines."""
    try:
        text = YamlText(file.read_bytes())
        data = text.load()
        suite = Suite.model_validate(data)
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}.") from None
    except NotYaml as error:
        raise Failure(f"{file}:{error.line}: {error}.") from None
    except ValidationError as error:
        found = mistakes(error, data)
    else:
        found = list(_slips(suite))
    if found:
        raise Failure(f"The suite is wrong:\n{in_lines(file, text, found)}")
    return suite


def _slips(suite: Suite) -> Iterator[Mistake]:
    """What no field shows alone."""
    names = Counter(case.name for case in suite.cases)
    for place, case in enumerate(suite.cases):
        if names[case.name] > 1:
            yield ("cases", place, "name"), "Another case has this name"
        if case.assistant is None and suite.assistant is None:
            yield ("cases", place), "An assistant is needed, here or for all cases"
