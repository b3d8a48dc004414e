"""Wall clocks that are wrong, and that are set while processes go by them (libfaketime)."""

from pathlib import Path
from typing import Final

LIBRARY: Final = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


class Clock:
    """The clock of a host that is so many seconds ahead of ours. Only what is started in its
    ``environment`` sees it; no clock that measures durations is touched.
    """

    def __init__(self, folder: Path, name: str, ahead_s: int = 0) -> None:
        self._file = folder / f"clock-{name}"
        self.set(ahead_s)

    def set(self, ahead_s: int) -> None:
        """Step to another time."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{ahead_s:+d}\n")
        draft.replace(self._file)

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process go by this clock."""
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
