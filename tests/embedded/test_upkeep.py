"""What a server does beside serving."""

from __future__ import annotations

import gc

from makeway.embedded.upkeep import left_alone_when_old


def test_what_somebody_else_has_frozen_is_not_thawed() -> None:
    gc.unfreeze()
    with left_alone_when_old():
        gc.collect()
        assert gc.get_freeze_count()
    assert not gc.get_freeze_count()

    gc.freeze()  # as it was before
    with left_alone_when_old():
        gc.collect()
    assert gc.get_freeze_count()
