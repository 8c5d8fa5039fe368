"""Which flip to take: weights for what is known of a flip, found by trying, with no scheme shown.

The cross-entropy method: a dozen policies are drawn, each walks a few times, and the next dozen are drawn around the
best. What is judged is the number of flips until the rank falls to the target. The features mean the same in every
format, so what was learned on 2x2x2 walks elsewhere.
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
    format: Format  # what it learns on
    target: int  # rank at which a walk ends
    seed: int = 1
    generations: int = 12
    population: int = 20
    elite: int = 5
    episodes: int = 12  # of each policy
    max_flips: int = 4_000  # of one episode
    spread: float = 1.5  # of the first generation
    min_spread: float = 0.15


@dataclass(frozen=True)
class Generation:
    index: int
    weights: tuple[float, ...]  # the mean of the elite, as in FEATURES
    best_flips: float  # geometric mean over the episodes of the best policy
    mean_flips: float  # the same over all policies


def train_flip_policy(training: FlipTraining) -> Iterator[Generation]:
    """Yields every generation; the last one's weights are the policy."""
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
    """One walk from the schoolbook's scheme: flips made and rank reached; the scheme is proved."""
    walk = start_guided_walk(to_masks(naive_factorization(format_, Field.GF2)), weights, derive_seed(seed, 0, 0))
    made = walk.run(max_flips, target)
    return made, verify(from_masks(walk.current, format_)).rank


def _evaluate(weights: list[float], training: FlipTraining, generation: int) -> float:
    """Mean logarithm of the flips; all policies of a generation throw the same dice."""
    start = to_masks(naive_factorization(training.format, Field.GF2))
    total = 0.0
    for episode in range(training.episodes):
        walk = start_guided_walk(start, weights, derive_seed(training.seed, generation, episode))
        made = walk.run(training.max_flips, training.target)
        total += log(made if walk.rank <= training.target else training.max_flips)
    return total / training.episodes
