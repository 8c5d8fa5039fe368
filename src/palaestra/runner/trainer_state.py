"""The trainer state of all ranks in one file: the leader's whole state, and of other ranks what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.algorithms.serialization import deserialize, has_torch, serialize
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.lazy_import import lazy_import
from palaestra.training.distributed.reports import import_torch_together, weights_digest

if TYPE_CHECKING:
    from palaestra.algorithms.group import Group
    from palaestra.checkpoints import weights as weight_files
    from palaestra.training.state import TrainingState
else:
    weight_files = lazy_import("palaestra.checkpoints.weights")

EQUAL_ON_ALL = frozenset({"iteration", "env_steps", "algorithm"})  # entries of a capture, beside the algorithm's
ZIP = b"PK"  # how torch's files begin
OTHERS = "others"  # entry of a trainer state: the captures of ranks 1, 2, …


def gather_captures(state: TrainingState) -> list[dict[str, Any]]:
    """A collective. Gives the leader the captures of ranks 1, 2, …, after checking that their weights equal its own."""
    group = state.group
    if group.world_size == 1:
        return []
    import_torch_together(group)
    own = b""
    if not group.is_leader:
        replicated = EQUAL_ON_ALL | state.algorithm.replicated
        capture = {name: part for name, part in state.capture().items() if name not in replicated}
        own = _to_bytes({"capture": capture, "weights": weights_digest(state.algorithm.weights())})
    gathered = group.gather_bytes(own)[1:]
    parts = [_from_bytes(data, f"the state of rank {rank}") for rank, data in enumerate(gathered, start=1)]
    if parts:
        _require_equal_weights(
            weights_digest(state.algorithm.weights()), [part["weights"] for part in parts], state.iteration
        )
    return [part["capture"] for part in parts]


def _to_bytes(state: dict[str, Any]) -> bytes:
    return weight_files.trainer_state_to_bytes(state) if has_torch() else serialize(state)


def _from_bytes(data: bytes, source: str) -> dict[str, Any]:
    if data.startswith(ZIP):
        return weight_files.trainer_state_from_bytes(data, source)
    state: dict[str, Any] = deserialize(data)
    return state


def share_trainer_state(trainer_state: dict[str, Any] | None, group: Group) -> dict[str, Any] | None:
    """A collective: broadcasts what the leader has loaded."""
    if group.world_size == 1:
        return trainer_state
    data = group.broadcast_bytes(b"" if trainer_state is None else weight_files.trainer_state_to_bytes(trainer_state))
    return weight_files.trainer_state_from_bytes(data, "the leader's trainer state") if data else None


def own_capture(trainer_state: dict[str, Any], group: Group) -> dict[str, Any]:
    """The capture that this rank continues from; a state of more or fewer ranks is refused."""
    others = trainer_state.get(OTHERS, [])
    saved_by = 1 + len(others)
    if saved_by != group.world_size:
        raise UsageError(
            f"This run was trained by {_processes(saved_by)}; {_processes(group.world_size)} cannot continue it.",
            f"Continue it with {f'--nproc {saved_by}' if saved_by > 1 else 'one process'}, or start a new run.",
        )
    training: dict[str, Any] = trainer_state["training"]
    return training if group.is_leader else {**training, **others[group.rank - 1]}


def _require_equal_weights(leader: str, others: list[str], iteration: int) -> None:
    for rank, digest in enumerate(others, start=1):
        if digest != leader:
            raise RunFailed(
                f"After update {iteration} rank {rank} has different weights than rank 0; nothing was saved.",
                "Do all machines have the same package versions and the same kind of processor?",
            )


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
