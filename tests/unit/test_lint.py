"""What the lint finds in tools, and what it leaves alone."""

from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from examples.quietreads import tools as quietreads
from orchestrator import tool
from orchestrator.lint import Rule, lint
from orchestrator.records import Json, ToolSpec
from orchestrator.tools import Tool

GOOD = "The price of one item in the shop, in euros. Use it before you name any price."


def rules(*specs: ToolSpec) -> list[Rule]:
    return [finding.rule for finding in lint(specs)]


def takes(**properties: Json) -> ToolSpec:
    """A tool with these parameters, all described, and without other faults."""
    described = {name: {"description": "What it is.", **x} for name, x in properties.items()}
    return ToolSpec(
        name="get_price",
        description=GOOD,
        parameters={"type": "object", "properties": described, "additionalProperties": False},
    )


def test_a_good_tool_is_left_alone() -> None:
    assert rules(takes(item={"type": "string"}, quantity={"type": "integer", "default": 1})) == []


def test_the_example_tools_are_clean() -> None:
    specs = [x.spec for x in vars(quietreads).values() if isinstance(x, Tool)]
    assert len(specs) == 5
    assert lint(specs) == []


@pytest.mark.parametrize(
    ("description", "found"),
    [
        ("", [Rule.NO_DESCRIPTION]),
        (" \n", [Rule.NO_DESCRIPTION]),
        ("A tool.", [Rule.VAGUE_DESCRIPTION]),
        ("Get the price: the get price, a price.", [Rule.VAGUE_DESCRIPTION]),
        (GOOD, []),
    ],
)
def test_a_description_must_say_more_than_the_name(description: str, found: list[Rule]) -> None:
    assert rules(ToolSpec(name="get_price", description=description)) == found


@pytest.mark.parametrize("name", ["", "a" * 65, "shop.get_price", "prix_du_thé"])
def test_a_name_that_providers_refuse_is_found_with_one_that_they_accept(name: str) -> None:
    (finding,) = lint([ToolSpec(name=name, description=GOOD)])
    assert finding.rule is Rule.BAD_NAME
    assert lint([ToolSpec(name=finding.example.split('"')[1], description=GOOD)]) == []


def test_a_name_of_64_characters_is_accepted() -> None:
    assert rules(ToolSpec(name="a" * 64, description=GOOD)) == []


def test_an_undescribed_parameter_is_named() -> None:
    (finding,) = lint([takes(item={"type": "string"}, unit={"description": " "})])
    assert finding.rule is Rule.UNDESCRIBED_PARAMETER
    assert "unit" in finding.reason


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": {"type": "number"}},
        {"type": "object", "additionalProperties": True},
        {"type": "array"},
        {"type": "array", "items": {}, "uniqueItems": True},
        {"type": "array", "prefixItems": [{"type": "string"}]},
        {"anyOf": [{"type": "null"}, {"type": "array", "items": {"oneOf": []}}]},
        {"properties": {"deep": {"not": {}}}},
    ],
)
def test_what_strict_mode_refuses_is_found_at_any_depth(schema: Json) -> None:
    assert rules(takes(given=schema)) == [Rule.NOT_STRICT]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "object", "additionalProperties": False, "properties": {"not": {}, "if": {}}},
        {"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^a"}]},
        {"enum": ["oneOf", "not"]},
    ],
)
def test_what_strict_mode_takes_is_left_alone(schema: Json) -> None:
    assert rules(takes(given=schema)) == []


def test_a_place_in_a_schema_is_named() -> None:
    class Basket(BaseModel):
        prices: dict[str, float]

    @tool(side_effects="none")
    def get_total(baskets: Annotated[list[Basket], Field(description="All of them.")]) -> float:
        """The sum of what is in all baskets, in euros."""
        raise NotImplementedError

    (finding,) = lint([get_total.spec])
    assert "in arguments.Basket.prices: an object with any keys" in finding.reason


@pytest.mark.parametrize("name", ["send_letter", "userDelete", "order-cancel", "book_table"])
def test_a_changing_tool_must_say_whether_twice_does_harm(name: str) -> None:
    assert rules(ToolSpec(name=name, description=GOOD)) == [Rule.UNDECLARED_SIDE_EFFECTS]


@pytest.mark.parametrize("name", ["get_post", "list_orders", "find_book", "price", "resend"])
def test_a_reading_name_needs_no_declaration(name: str) -> None:
    assert rules(ToolSpec(name=name, description=GOOD)) == []


def test_the_default_counts_once_it_is_declared() -> None:
    def send(to: Annotated[str, Field(description="The address.")]) -> None:
        """Send a letter by post to somebody."""

    assert rules(tool(side_effects="once")(send).spec) == []
    assert rules(tool(send).spec) == [Rule.UNDECLARED_SIDE_EFFECTS]


def test_descriptions_that_cannot_be_told_apart_are_found_with_both_names() -> None:
    one = ToolSpec(name="orders", description="All orders of the customer, the latest first.")
    other = ToolSpec(name="bills", description="All bills of the customer, the latest first.")
    (finding,) = lint([one, other])
    assert finding.rule is Rule.ALIKE
    assert (finding.tool, "bills" in finding.reason) == ("orders", True)
    clear = other.but(description="What the customer has paid or owes. For goods, use orders.")
    assert lint([one, clear]) == []


def test_two_tools_without_descriptions_are_not_called_alike() -> None:
    none = [ToolSpec(name=name) for name in ("a", "b")]
    assert rules(*none) == [Rule.NO_DESCRIPTION, Rule.NO_DESCRIPTION]


def test_each_finding_has_a_reason_and_an_example() -> None:
    specs = [ToolSpec(name="send it", parameters={"properties": {"x": {"type": "array"}}})]
    findings = lint(specs)
    assert len(findings) == 5
    assert all(finding.reason and finding.example for finding in findings)
