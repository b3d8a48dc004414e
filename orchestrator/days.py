"""Days of UTC, such as ``2026-11-30``, by the store's clock."""

from datetime import UTC, date, datetime, timedelta


def day_of(time_ms: int) -> date:
    """The day in which this time is."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).date()


def days_between(first: date, last: date) -> list[str]:
    """All of them, both ends included."""
    count = (last - first).days + 1
    return [(first + timedelta(days=number)).isoformat() for number in range(count)]
