"""What can be read off the weights of a checkpoint: how large, how many directions in use, how many units are dead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from palaestra.checkpoints.loading import load_opened_policy
from palaestra.checkpoints.selection import open_checkpoint
from palaestra.core.errors import DamagedFile, NotFound, UsageError
from palaestra.policies.diagnostics import layer_weights, weight_statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.analysis.report import Analysis
    from palaestra.analysis.targets import AnalysisTarget


@dataclass(frozen=True)
class Layer:
    name: str
    units: int
    inputs: int  # of one unit
    norm: float
    effective_rank: float  # directions in use; at most `full_rank`
    full_rank: int
    dead_units: float  # share of units whose incoming weights are nearly zero


@dataclass(frozen=True)
class PolicyWeights:
    label: str
    layers: tuple[Layer, ...]


def weigh(target: AnalysisTarget) -> PolicyWeights:
    """Errors of a checkpoint that does not verify, or names a module of a stranger, are the caller's."""
    assert target.epoch is not None, "there is a checkpoint"
    opened = open_checkpoint(target.found.directory, target.epoch)
    agent = load_opened_policy(opened, trust_module=target.found.is_own).policy
    figures = weight_statistics(agent)
    layers = []
    for name, weight in layer_weights(agent):
        units, inputs = weight.flatten(1).shape
        norm, rank, dead = (figures[f"weights/{name}/{one}"] for one in ("norm", "effective_rank", "dead_units"))
        layers.append(Layer(name, units, inputs, norm, rank, min(units, inputs), dead))
    return PolicyWeights(target.label, tuple(layers))


def with_weights(analysis: Analysis, targets: Sequence[AnalysisTarget]) -> Analysis:
    """One whose weights cannot be read is noted; the others are weighed all the same."""
    weighed, notes = [], []
    for target in targets:
        if target.checkpoint is None:
            continue
        try:
            weighed.append(weigh(target))
        except (DamagedFile, NotFound, UsageError) as error:
            notes.append(f"{target.label}: Its weights are not shown: {error}")
    return replace(analysis, weights=tuple(weighed), notes=(*analysis.notes, *notes))
