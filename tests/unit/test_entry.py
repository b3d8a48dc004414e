"""How processes begin."""

import gc

from orchestrator.entry import settle


def test_what_is_loaded_at_the_start_is_no_work_for_the_garbage_collector() -> None:
    before = gc.get_freeze_count()
    try:
        settle()
        assert gc.get_freeze_count() > before + 10_000
        assert len(gc.get_objects()) < gc.get_freeze_count()
    finally:
        gc.unfreeze()
