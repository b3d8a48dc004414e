"""``python -m tests.workers.hasty``: a worker that does RQ's maintenance every second, and misses
others as soon.
"""

from workers import call_worker
from workers.__main__ import main

if __name__ == "__main__":
    call_worker.MAINTENANCE_S = 1  # type: ignore[misc]
    call_worker.SILENT_S = 3  # type: ignore[misc]
    main()
