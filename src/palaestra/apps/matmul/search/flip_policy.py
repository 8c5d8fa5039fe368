"""A policy for flips: feature weights trained with the cross-entropy method, without demonstrations.

Each generation samples policies around the mean of the previous elite; a policy's score is the number of flips until
the rank reaches the target. The features mean the same in every format, so the policy transfers to other formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_guided_walk import FEATURES, start_guided_walk
from palaestra.apps.matmul.search.flip_search import derive_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from palaestra.apps.matmul.schemes.factorization import Format


@dataclass(frozen=True)
class FlipTraining:
    format: Format  # to train on
    target: int  # rank that ends a walk
    seed: int = 1
    generations: int = 12
    population: int = 20
    elite: int = 5
    episodes: int = 12  # walks of each policy
    max_flips: int = 4_000  # of one walk
    spread: float = 1.5  # standard deviation of the first generation
    min_spread: float = 0.15


@dataclass(frozen=True)
class Generation:
    index: int
    weights: tuple[float, ...]  # mean of the elite, in the order of FEATURES
    best_flips: float  # geometric mean over the episodes of the best policy
    mean_flips: float  # the same over all policies


def train_flip_policy(training: FlipTraining) -> Iterator[Generation]:
    """Yields every generation; the weights of the last are the trained policy."""
    rng = np.random.default_rng(training.seed)
    mean = np.zeros(len(FEATURES))
    spread = np.full(len(FEATURES), training.spread)
    for index in range(training.generations):
        policies = mean + spread * rng.standard_normal((training.population, len(FEATURES)))
        scores = np.array([_evaluate(policy.tolist(), training, index) for policy in policies])
        elite = policies[np.argsort(scores, kind="stable")[: training.elite]]
        mean, spread = elite.mean(axis=0), elite.std(axis=0) + training.min_spread
        yield Generation(index, tuple(mean.tolist()), float(np.exp(scores.min())), float(np.exp(scores.mean())))


def run_guided_walk(
    format_: Format, target: int, weights: Sequence[float], seed: int, max_flips: int
) -> tuple[int, int]:
    """One walk from the naive scheme: the number of flips and the verified rank."""
    walk = start_guided_walk(to_masks(naive_factorization(format_, Field.GF2)), weights, derive_seed(seed, 0, 0))
    made = walk.run(max_flips, target)
    return made, verify(from_masks(walk.current, format_)).rank


def _evaluate(weights: list[float], training: FlipTraining, generation: int) -> float:
    """Mean log number of flips; all policies of a generation use the same random seeds."""
    start = to_masks(naive_factorization(training.format, Field.GF2))
    total = 0.0
    for episode in range(training.episodes):
        walk = start_guided_walk(start, weights, derive_seed(training.seed, generation, episode))
        made = walk.run(training.max_flips, training.target)
        total += log(made if walk.rank <= training.target else training.max_flips)
    return total / training.episodes
