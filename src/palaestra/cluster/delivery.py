"""How a checkpoint travels: its weights once for each sha256, and a sidecar that says no more than it must."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.durable import verify
from palaestra.checkpoints.names import model_name
from palaestra.checkpoints.selection import epoch_of_path
from palaestra.checkpoints.sidecar import encode
from palaestra.core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BYTES_KEPT = 64 << 20  # of weights that nobody plays just now, in the store of Ray


@dataclass(frozen=True)
class Parcel:
    sha256: str  # of the weights
    sidecar: bytes
    weights: Any  # a reference into the store of Ray
    policy: dict[str, Any]  # as the sidecar has it


@dataclass
class _Stored:
    weights: Any
    size: int
    sidecars: dict[Path, tuple[bytes, dict[str, Any]]] = field(default_factory=dict)  # and the policy in each
    users: int = 0


class Deliveries:
    """What was put into the store; `put` is Ray's. Who takes a parcel gives it back when nobody plays it any more."""

    def __init__(self, put: Callable[[bytes], Any], bytes_kept: int = BYTES_KEPT) -> None:
        self._put = put
        self._bytes_kept = bytes_kept
        self._stored: OrderedDict[str, _Stored] = OrderedDict()  # by sha256; the last one used at the end

    def take(self, path: Path, sha256: str) -> Parcel:
        """The checkpoint of that sidecar, if its weights are those that were asked for."""
        stored = self._stored.get(sha256)
        if stored is None or path not in stored.sidecars:
            sidecar, weights, policy = packed(path, sha256)
            if stored is None:
                stored = self._stored[sha256] = _Stored(self._put(weights), len(weights))
            stored.sidecars[path] = sidecar, policy
        stored.users += 1
        self._stored.move_to_end(sha256)
        sidecar, policy = stored.sidecars[path]
        return Parcel(sha256, sidecar, stored.weights, policy)

    def give_back(self, parcel: Parcel) -> None:
        """Ray frees what nobody refers to; what may be wanted again is kept as far as there is room."""
        self._stored[parcel.sha256].users -= 1
        idle = [key for key, stored in self._stored.items() if not stored.users]
        size = sum(self._stored[key].size for key in idle)
        for key in idle:
            if size <= self._bytes_kept:
                return
            size -= self._stored.pop(key).size


def packed(path: Path, sha256: str) -> tuple[bytes, bytes, dict[str, Any]]:
    """Sidecar, weights and policy, verified.

    Without what changes later and no player needs: scores and the trainer's state.
    """
    checkpoint, parts = verify(path.parent, epoch_of_path(path))
    name = model_name(checkpoint.epoch)
    if checkpoint.files[name]["sha256"] != sha256:
        raise NotFound(f"{path} has other weights by now.", "Ask again.")
    bare = replace(checkpoint, score=None, avg_reward=None, metrics={}, files={name: checkpoint.files[name]}, path=None)
    return encode(bare), parts[name], dict(checkpoint.policy)
