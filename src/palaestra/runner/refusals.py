"""A rank that is refused before it joins the others (a setting, a run that does not exist) tells them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palaestra.algorithms.group import PeerLost
from palaestra.core.errors import PalaestraError
from palaestra.runner.parent import LAUNCHER
from palaestra.training.distributed.rank_info import read_rank_info
from palaestra.training.distributed.rendezvous import post_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILED = 1  # exit code; others are refusals
WAIT_SECONDS = 10.0  # for the others to come and read it


@contextmanager
def refusals_posted() -> Iterator[None]:
    """Under torchrun and the like; a launcher of ours sees by itself that a rank has ended."""
    try:
        yield
    except PeerLost:
        raise
    except PalaestraError as error:
        if error.exit_code != FAILED and not error.is_posted and LAUNCHER not in os.environ:
            _post(error)
        raise


def _post(error: PalaestraError) -> None:
    try:
        place = read_rank_info(os.environ)
    except PalaestraError:  # the variables themselves are what is refused
        return
    if place is not None and place.world_size > 1:
        post_refusal(place, error.message, WAIT_SECONDS)
