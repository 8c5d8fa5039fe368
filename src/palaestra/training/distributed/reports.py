"""What the ranks of a group tell the leader after every iteration, and how it becomes one report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.serialization import has_torch
from palaestra.core.episodes import EpisodeColumns, EpisodeResult, to_columns
from palaestra.core.lazy_import import lazy_import
from palaestra.core.reports import UpdateFigures

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from palaestra.algorithms.group import Group
    from palaestra.core.reports import IterationReport
else:
    torch = lazy_import("torch")


def shared_report(report: IterationReport, group: Group) -> IterationReport:
    """For the leader: episodes and seconds of all ranks, and means of their figures. For the others: their own."""
    if group.world_size == 1:
        return report
    own = {
        "update": report.update.metrics(),
        "metrics": report.metrics,
        "episodes": _encode_episodes(report.episodes),
        "seconds": report.times.rollout + report.times.learn - report.times.waiting,
    }
    gathered = group.gather_bytes(json.dumps(own).encode())
    if not group.is_leader:
        return report
    parts = [json.loads(text) for text in gathered]
    return replace(
        report,
        update=UpdateFigures(_mean_metrics([part["update"] for part in parts])),
        metrics=_mean_metrics([part["metrics"] for part in parts]),
        episodes=_decode_episodes([part["episodes"] for part in parts], report.env_steps),
        rank_seconds=tuple(part["seconds"] for part in parts),
    )


def numbered(episodes: Sequence[EpisodeResult], group: Group, env_count: int, env_step: int) -> Sequence[EpisodeResult]:
    """Environments are numbered over all ranks; an episode's step is that of the iteration it ended in."""
    if not episodes:
        return ()
    first = group.rank * env_count
    columns = to_columns(episodes)
    if columns is not None:
        return columns.numbered(first, env_step)
    return tuple(replace(one, env_step=env_step, env_index=first + one.env_index) for one in episodes)


def equalize(policy: nn.Module | Mapping[str, NDArray[Any]], group: Group) -> None:
    """Everybody gets the leader's weights and statistics: another processor may round the same seed differently."""
    if isinstance(policy, Mapping):
        for weights in policy.values():
            weights[...] = np.frombuffer(group.broadcast_bytes(weights.tobytes()), weights.dtype).reshape(weights.shape)
        return
    with torch.no_grad():
        for tensor in (*policy.parameters(), *policy.buffers()):
            group.broadcast_(tensor)


def import_torch_together(group: Group) -> None:
    """A collective: where one rank has imported torch, all do, so that all speak of tensors or none does."""
    (is_somewhere,) = group.max_over_ranks(int(has_torch()))
    if is_somewhere:
        import_module("torch")


def weights_digest(policy: nn.Module | Mapping[str, NDArray[Any]]) -> str:
    """Equal on two ranks when every weight and every statistic is, to the last bit; of a module or its state_dict."""
    digest = hashlib.sha256()
    for name, part in (policy if isinstance(policy, Mapping) else policy.state_dict()).items():
        digest.update(name.encode())
        digest.update(part.tobytes() if isinstance(part, np.ndarray) else _bytes_of(part))
    return digest.hexdigest()


def _bytes_of(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _encode_episodes(episodes: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Columns where they say all: hundreds of episodes may end in an iteration."""
    columns = to_columns(episodes)
    if columns is None:
        return {"rows": [asdict(episode) for episode in episodes]}
    fields = (columns.env_indices, columns.total_rewards, columns.lengths, columns.terminated)
    return {"columns": [list(field) for field in fields]}


def _decode_episodes(parts: list[dict[str, Any]], env_step: int) -> Sequence[EpisodeResult]:
    """Of all ranks, in their order."""
    if all("columns" in part for part in parts):
        indices, returns, lengths, terminated = (
            [value for own in field for value in own]
            for field in zip(*(part["columns"] for part in parts), strict=True)
        )
        return EpisodeColumns(indices, returns, lengths, terminated, env_step)
    episodes: list[EpisodeResult] = []
    for part in parts:
        if "columns" in part:
            indices, returns, lengths, terminated = part["columns"]
            episodes.extend(EpisodeColumns(indices, returns, lengths, terminated, env_step))
        else:
            episodes.extend(EpisodeResult(**row) for row in part["rows"])
    return tuple(episodes)


def _mean_metrics(rows: list[dict[str, float]]) -> dict[str, float]:
    """Over the ranks that have the metric: what did not happen on one is absent there, not zero.

    Every rank has as many samples, so the mean of means is the mean; explained variance is that of the ranks.
    """
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    return {name: sum(those) / len(those) for name, those in values.items()}
