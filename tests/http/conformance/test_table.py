"""The document marks what the tours prove."""

from tests.http.conformance.table import table, written


def test_the_table_of_operations_is_the_one_that_the_tours_prove() -> None:
    assert written() == table(), "python -m tests.http.conformance.table writes it anew"
