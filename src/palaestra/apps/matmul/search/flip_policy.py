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
from palaestra.apps.matmul.schemes.factorization import schoolbook
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_guided_walk import FEATURES, begin_guided
from palaestra.apps.matmul.search.flip_search import throw

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
    most_flips: int = 4_000  # of one episode
    spread: float = 1.5  # of the first generation
    least_spread: float = 0.15


@dataclass(frozen=True)
class Generation:
    index: int
    weights: tuple[float, ...]  # the mean of the elite, as in FEATURES
    best_flips: float  # geometric mean over the episodes of the best policy
    mean_flips: float  # the same over all policies


def learn_flips(training: FlipTraining) -> Iterator[Generation]:
    """Yields every generation; the last one's weights are the policy."""
    dice = np.random.default_rng(training.seed)
    mean = np.zeros(len(FEATURES))
    spread = np.full(len(FEATURES), training.spread)
    for index in range(training.generations):
        policies = mean + spread * dice.standard_normal((training.population, len(FEATURES)))
        judged = np.array([_judge(policy.tolist(), training, index) for policy in policies])
        elite = policies[np.argsort(judged, kind="stable")[: training.elite]]
        mean, spread = elite.mean(axis=0), elite.std(axis=0) + training.least_spread
        yield Generation(index, tuple(mean.tolist()), float(np.exp(judged.min())), float(np.exp(judged.mean())))


def walk_guided(format_: Format, target: int, weights: Sequence[float], seed: int, most_flips: int) -> tuple[int, int]:
    """One walk from the schoolbook's scheme: flips made and rank reached; the scheme is proved."""
    walk = begin_guided(to_masks(schoolbook(format_, Field.GF2)), weights, throw(seed, 0, 0))
    made = walk.go(most_flips, target)
    return made, verify(from_masks(walk.current, format_)).rank


def _judge(weights: list[float], training: FlipTraining, generation: int) -> float:
    """Mean logarithm of the flips; all policies of a generation throw the same dice."""
    start = to_masks(schoolbook(training.format, Field.GF2))
    total = 0.0
    for episode in range(training.episodes):
        walk = begin_guided(start, weights, throw(training.seed, generation, episode))
        made = walk.go(training.most_flips, training.target)
        total += log(made if walk.rank <= training.target else training.most_flips)
    return total / training.episodes
