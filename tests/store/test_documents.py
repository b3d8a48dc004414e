"""Documents survive the way to the store and back."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from orchestrator.decisions import Event
from orchestrator.storage.changes import as_json
from tests.store.samples import SPEC, new_event, new_message, new_run


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field may hold, and those that they may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models_in(field.annotation)
    for part in get_args(annotation):
        yield from models_in(part)


def test_a_field_of_an_event_that_may_be_null_is_null_by_default() -> None:
    """Events are stored without their nulls, so another default would take a null's place."""
    wrong = [
        f"{model.__name__}.{name}"
        for model in set(models_in(Event))
        for name, field in model.model_fields.items()
        if type(None) in get_args(field.annotation) and field.default is not None
    ]
    assert wrong == []


def test_an_event_is_read_as_it_was() -> None:
    message = new_message("thread_1", 0).but(content=({"type": "text", "annotation": None},))
    event = new_event(new_run("thread_1"), "why").but(message=message)
    stored = as_json(event, exclude_none=True)
    assert Event.model_validate_json(stored) == event
    assert b"last_error" not in stored


def test_nulls_of_other_documents_are_kept() -> None:
    assert type(SPEC).model_validate_json(as_json(SPEC)).temperature is None
