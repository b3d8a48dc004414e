"""The documents name the settings that there are."""

from tests.house.settings_table import table, written


def test_the_table_of_settings_is_the_one_that_the_class_gives() -> None:
    assert written() == table(), "python -m tests.house.settings_table writes it anew"
