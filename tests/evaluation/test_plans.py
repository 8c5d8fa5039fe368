from __future__ import annotations

import hashlib
import json
import random
from dataclasses import asdict, replace

import pytest

from palaestra.config.env import EnvConfig
from palaestra.config.evaluation import EvaluationConfig
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import RunFailed, UsageError
from palaestra.core.evaluation import EvaluationPlan
from palaestra.evaluation.plans import (
    LARGEST_SEED,
    env_of,
    episode_from,
    key_of,
    make_plan,
    make_plans,
    make_request,
    merge_episodes,
    plan_from,
    request_from_json,
    request_to_json,
    split_plan,
    weights_of,
)
from palaestra.evaluation.suites import suite_of
from palaestra.runs.files import finite

ENV = EnvConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": True})


def test_seeds_follow_each_other_so_that_a_longer_plan_begins_like_a_shorter_one():
    short, long = (make_plan("run:1", ENV, episodes=count, seed=7) for count in (2, 4))
    assert long.seeds == (7, 8, 9, 10)
    assert long.seeds[:2] == short.seeds


def test_a_plan_says_which_environment_with_which_settings():
    plan = make_plan("run:1", ENV, episodes=1, seed=0, deterministic=False)
    assert (plan.env_id, plan.env_kwargs, plan.deterministic) == ("CartPole-v1", {"sutton_barto_reward": True}, False)


@pytest.mark.parametrize(("episodes", "seed"), [(0, 0), (-1, 0), (1, -1), (1, 2**64), (2, LARGEST_SEED)])
def test_what_cannot_be_played_is_refused(episodes, seed):
    with pytest.raises(UsageError):
        make_plan("run:1", ENV, episodes=episodes, seed=seed)


def suite():
    simulations = {
        "short": {"category": "speed", "env": {"max_episode_steps": 9}, "episodes": 2, "seed": 50},
        "plain": {},
    }
    settings = EvaluationConfig(episodes=3, seed=700, deterministic=False, simulations=simulations)
    return suite_of("mine", settings, ENV.model_dump())


def test_a_suite_gives_a_plan_for_each_simulation_with_what_it_says_before_what_holds_for_all():
    short, plain = make_plans("run:1", suite())
    assert (short.seeds, plain.seeds) == ((50, 51), (700, 701, 702))
    assert (short.simulation, short.category, plain.simulation, plain.category) == (
        "short",
        "speed",
        "plain",
        "default",
    )
    assert (short.max_episode_steps, plain.max_episode_steps) == (9, None)
    assert {plan.suite for plan in (short, plain)} == {"mine"}
    assert not short.deterministic


def test_what_is_requested_now_goes_before_what_the_suite_says():
    short, plain = make_plans("run:1", suite(), episodes=1, seed=0, deterministic=True)
    assert short.seeds == plain.seeds == (0,)
    assert plain.deterministic


def test_batches_have_seeds_of_their_own_without_a_gap():
    batches = [make_plans("run:1", suite(), batch=batch) for batch in range(3)]
    assert [seed for batch in batches for seed in batch[0].seeds] == list(range(50, 56))
    assert [seed for batch in batches for seed in batch[1].seeds] == list(range(700, 709))


def test_the_environment_of_a_plan_is_the_one_it_was_made_for():
    env = EnvConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": True}, max_episode_steps=7)
    assert env_of(make_plan("run:1", env, episodes=1, seed=0)) == env


PLAN = EvaluationPlan("run:3", "CartPole-v1", {"sutton_barto_reward": True}, (1, 2), simulation="short", category="a")


def test_a_request_comes_back_from_json_as_it_was(trained_run):
    request = make_request(trained_run.save(epoch=4), [PLAN, replace(PLAN, simulation="long")], git_commit="abc")
    assert request_from_json(request_to_json(request)) == request
    assert (request.epoch, request.agent_step, request.git_commit) == (4, 400, "abc")
    assert request.versions["palaestra"]


def test_the_weights_are_named_by_the_digest_of_their_file(trained_run):
    checkpoint = trained_run.save(epoch=4)
    content = (trained_run.directory.checkpoints / "model_0004.safetensors").read_bytes()
    assert weights_of(checkpoint) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": (1, 3)},
        {"env_id": "Acrobot-v1"},
        {"env_kwargs": {}},
        {"deterministic": False},
        {"max_episode_steps": 7},
        {"simulation": "other"},
        {"max_steps": 9},
    ],
)
def test_whatever_changes_a_result_changes_the_key(changes):
    assert key_of("w", [PLAN]) != key_of("w", [replace(PLAN, **changes)])


def test_what_changes_no_result_does_not_change_the_key():
    assert key_of("w", [PLAN]) == key_of("w", [replace(PLAN, checkpoint="copy:3", suite="mine", category="b")])
    assert key_of("w", [PLAN]) != key_of("v", [PLAN])
    assert key_of("w", [PLAN]) != key_of("w", [PLAN, replace(PLAN, simulation="two")])


def test_evaluations_from_before_max_steps_existed_are_still_found():
    plan = {"env_id": "A", "env_kwargs": {}, "seeds": [1], "deterministic": True, "simulation": "default"}
    text = json.dumps(["w", [{**plan, "max_episode_steps": None}]], sort_keys=True)
    assert key_of("w", [EvaluationPlan("run:1", "A", {}, (1,))]) == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_a_plan_and_an_episode_come_back_from_a_file_also_when_they_are_not_finite():
    assert plan_from(json.loads(json.dumps(asdict(PLAN)))) == PLAN
    episode = EpisodeResult(3, float("inf"), 2, False, extras={"heart": float("-inf")})
    assert episode_from(json.loads(json.dumps(finite(asdict(episode))))) == episode


SHARED_PLAN = EvaluationPlan("run:1", "CartPole-v1", {}, tuple(range(100, 111)))


def episode(seed, reward=0.0):
    return EpisodeResult(seed, reward, 1, True)


@pytest.mark.parametrize("count", [1, 2, 3, 11, 40])
def test_every_seed_is_dealt_exactly_once_and_evenly(count):
    shares = split_plan(SHARED_PLAN, count)
    assert sorted(seed for share in shares for seed in share.seeds) == list(SHARED_PLAN.seeds)
    sizes = [len(share.seeds) for share in shares]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert len(shares) == min(count, 11)


def test_what_was_dealt_is_put_together_in_the_order_of_the_plan():
    episodes = [episode(seed, float(seed)) for share in split_plan(SHARED_PLAN, 3) for seed in share.seeds]
    random.Random(1).shuffle(episodes)
    report = merge_episodes(SHARED_PLAN, episodes, 2.0)
    assert report.complete
    assert report.returns == [float(seed) for seed in SHARED_PLAN.seeds]


def test_an_episode_that_came_twice_counts_once():
    episodes = [episode(seed, 1.0) for seed in (*SHARED_PLAN.seeds, SHARED_PLAN.seeds[0])]
    assert len(merge_episodes(SHARED_PLAN, episodes, 1.0).episodes) == 11


def test_without_some_of_its_episodes_a_report_is_incomplete():
    report = merge_episodes(SHARED_PLAN, [episode(seed) for seed in SHARED_PLAN.seeds[1:]], 1.0)
    assert (report.complete, len(report.episodes)) == (False, 10)


def test_third_parties_and_nothing_at_all_are_refused():
    with pytest.raises(RunFailed, match="not in the plan"):
        merge_episodes(SHARED_PLAN, [episode(5)], 1.0)
    with pytest.raises(RunFailed, match="No episode"):
        merge_episodes(SHARED_PLAN, [], 1.0)
