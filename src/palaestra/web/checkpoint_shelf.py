"""Sidecars that were read before. YAML costs some ten milliseconds each, and a long run has hundreds of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING

from palaestra.checkpoints.durable import check_sizes, committed_epochs, read_sidecar, while_it_stands
from palaestra.checkpoints.names import sidecar_name
from palaestra.checkpoints.reading import RefusedCheckpoint, Survey
from palaestra.core.errors import DamagedFile, NotFound

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.web.house import House

ROOM = "sidecars"
MOST = 5000  # some ten kilobytes each at most


class SidecarShelf:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[Path, int, int, int], Checkpoint] = OrderedDict()
        self._lock = threading.Lock()

    def survey(self, directory: Path) -> Survey:
        """As `checkpoints.reading.survey` gives it; a sidecar that did not change is not read again."""
        checkpoints, refused = [], []
        for epoch in committed_epochs(directory):
            path = directory / sidecar_name(epoch)
            try:
                read = partial(self._read, directory, path, epoch)
                checkpoints.append(while_it_stands(read, partial(check_sizes, directory))[0])
            except NotFound:  # removed by retention since the directory was listed
                continue
            except DamagedFile as error:
                if path.exists():
                    refused.append(RefusedCheckpoint(path, error.message))
        return Survey(tuple(checkpoints), tuple(refused))

    def _read(self, directory: Path, path: Path, epoch: int) -> Checkpoint:
        """A sidecar is replaced whole, so that a changed one is another file."""
        try:
            about = path.stat(follow_symlinks=False)
        except FileNotFoundError as error:
            raise NotFound(f"There is no checkpoint of epoch {epoch}.") from error
        key = (path, about.st_ino, about.st_size, about.st_mtime_ns)
        with self._lock:
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known
        checkpoint = read_sidecar(directory, epoch)
        with self._lock:
            self._kept[key] = checkpoint
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return checkpoint


def sidecar_shelf(house: House) -> SidecarShelf:
    shelf = house.rooms.setdefault(ROOM, SidecarShelf())
    assert isinstance(shelf, SidecarShelf)
    return shelf
