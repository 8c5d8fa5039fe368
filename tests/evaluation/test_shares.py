import random

import pytest

from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed
from palaestra.core.evaluation import EvaluationPlan
from palaestra.evaluation.shares import deal, put_together

PLAN = EvaluationPlan("run:1", "CartPole-v1", {}, tuple(range(100, 111)))


def episode(seed, reward=0.0):
    return EpisodeResult(seed, reward, 1, True)


@pytest.mark.parametrize("count", [1, 2, 3, 11, 40])
def test_every_seed_is_dealt_exactly_once_and_evenly(count):
    shares = deal(PLAN, count)
    assert sorted(seed for share in shares for seed in share.seeds) == list(PLAN.seeds)
    sizes = [len(share.seeds) for share in shares]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert len(shares) == min(count, 11)


def test_what_was_dealt_is_put_together_in_the_order_of_the_plan():
    episodes = [episode(seed, float(seed)) for share in deal(PLAN, 3) for seed in share.seeds]
    random.Random(1).shuffle(episodes)
    report = put_together(PLAN, episodes, 2.0)
    assert report.complete
    assert report.returns == [float(seed) for seed in PLAN.seeds]


def test_an_episode_that_came_twice_counts_once():
    episodes = [episode(seed, 1.0) for seed in (*PLAN.seeds, PLAN.seeds[0])]
    assert len(put_together(PLAN, episodes, 1.0).episodes) == 11


def test_without_some_of_its_episodes_a_report_is_incomplete():
    report = put_together(PLAN, [episode(seed) for seed in PLAN.seeds[1:]], 1.0)
    assert (report.complete, len(report.episodes)) == (False, 10)


def test_strangers_and_nothing_at_all_are_refused():
    with pytest.raises(RunFailed, match="not in the plan"):
        put_together(PLAN, [episode(5)], 1.0)
    with pytest.raises(RunFailed, match="No episode"):
        put_together(PLAN, [], 1.0)
