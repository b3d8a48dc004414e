"""requirements.lock names one version of everything that pip would install."""

import tomllib
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.tree import ROOT

LOCK = [
    Requirement(line)
    for line in (ROOT / "requirements.lock").read_text().splitlines()
    if not line.startswith("#")
]
VERSIONS = {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in LOCK}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WANTED = [
    Requirement(text)
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
]


def test_every_line_pins_one_version() -> None:
    assert [str(pin) for pin in LOCK if pin.url or not str(pin.specifier).startswith("==")] == []
    assert len(VERSIONS) == len(LOCK)


def test_the_pins_satisfy_the_project() -> None:
    unmet = [
        str(wanted)
        for wanted in WANTED
        if not wanted.specifier.contains(VERSIONS.get(canonicalize_name(wanted.name), "0"))
    ]
    assert unmet == []


def test_nothing_that_is_needed_is_left_unpinned() -> None:
    needed: set[str] = set()
    pending = list(WANTED)
    while pending:
        requirement = pending.pop()
        key = f"{canonicalize_name(requirement.name)}[{','.join(sorted(requirement.extras))}]"
        if key not in needed:
            needed.add(key)
            pending += needs_of(requirement)
    assert {key.partition("[")[0] for key in needed} - VERSIONS.keys() == set()


def needs_of(requirement: Requirement) -> list[Requirement]:
    """What an installed distribution needs on this platform, with the extras that are asked for."""
    try:
        texts = distribution(requirement.name).requires or []
    except PackageNotFoundError:
        return []
    extras = requirement.extras or {""}
    return [
        need
        for need in map(Requirement, texts)
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)
    ]
