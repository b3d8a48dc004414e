"""The files of the project, as git would take them."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]


@cache
def files(*patterns: str) -> tuple[Path, ...]:
    """All files that are tracked or could be, or those that match one of the patterns."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return tuple(path for name in listed if name and (path := ROOT / name).is_file())
