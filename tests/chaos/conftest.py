"""Whole systems, one for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.dev import Dev


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    dev = Dev(tmp_path)
    yield dev
    dev.clean_up()
