"""What ranks share, and what two of them learn together against one that learns from both halves."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from palaestra.algorithms.advantages import estimate_advantages
from palaestra.algorithms.group import ALONE, Group
from palaestra.algorithms.ppo.update import update
from palaestra.algorithms.rollout import Rollout, collect_rollout
from palaestra.config.train import TrainConfig
from palaestra.core.episodes import EpisodeResult
from palaestra.core.reports import IterationReport, PhaseTimes, PpoStats
from palaestra.policies.normalise import RunningMoments
from palaestra.training.distributed.reports import equalize, numbered, shared_report, weights_digest
from palaestra.training.state import new_training_state, own_env_seeds
from palaestra.training.trainer import train


def config_of(env_count, **changes):
    ppo = {"env_count": env_count, "horizon": 16, "minibatch_size": env_count * 16, "update_epochs": 3}
    settings = {"policy": {"graph": "mlp", "normalize_observations": True, "normalize_returns": True}}
    return TrainConfig.model_validate({"total_steps": 10**6, **settings, "ppo": {**ppo, **changes}})


def halves(field, rank):
    """[T, B, …] to the columns of one rank of two."""
    return field.chunk(2, dim=1)[rank].contiguous()


def half_of(rollout, rank):
    return Rollout(
        observations=halves(rollout.observations, rank),
        actions=halves(rollout.actions, rank),
        log_probs=halves(rollout.log_probs, rank),
        values=halves(rollout.values, rank),
        next_values=halves(rollout.next_values, rank),
        rewards=halves(rollout.rewards, rank),
        ended=halves(rollout.ended, rank),
        starts=halves(rollout.starts, rank),
        memory={},
    )


def learn(state, rollout, config, group):
    advantages = estimate_advantages(rollout, config.ppo.gamma, config.ppo.gae_lambda)
    update(
        state.algorithm.policy(),
        state.algorithm.tensors.optimizer,
        rollout,
        advantages,
        config.ppo,
        0.3,
        state.algorithm.shuffler,
        group=group,
    )
    state.algorithm.policy().observation_normalizer.update(rollout.observations, group.stack)
    return torch.cat([tensor.double().flatten() for tensor in state.algorithm.policy().state_dict().values()])


@pytest.mark.parametrize("target_kl", [None, 1e-4])
def test_two_ranks_of_n_learn_what_one_of_2n_learns(together, target_kl):
    """Trap 14: advantages are normalised, gradients clipped and the KL stop decided over all ranks."""
    whole = new_training_state(config_of(4, target_kl=target_kl))
    rollout, _, _ = collect_rollout(
        whole.algorithm.policy(),
        whole.envs,
        whole.algorithm.buffer,
        whole.algorithm.tensors.memory,
        whole.algorithm.tensors.sampler,
        1,
    )
    alone = learn(whole, rollout, whole.config, ALONE)

    def work(group):
        config = config_of(2, target_kl=target_kl)
        return learn(new_training_state(config, group), half_of(rollout, group.rank), config, group).tolist()

    first, second = together(work)
    assert first == second
    torch.testing.assert_close(torch.tensor(first, dtype=torch.float64), alone, rtol=0, atol=1e-6)


def test_the_kl_stop_is_decided_for_all_ranks_together(together):
    """The target lies between what the two ranks see of themselves: each alone would decide otherwise."""

    def minibatches(group, target_kl, epochs):
        config = config_of(2, target_kl=target_kl, update_epochs=epochs, learning_rate=1e-2)
        state = new_training_state(config, group)
        rollout, _, _ = collect_rollout(
            state.algorithm.policy(),
            state.envs,
            state.algorithm.buffer,
            state.algorithm.tensors.memory,
            state.algorithm.tensors.sampler,
            1,
        )
        advantages = estimate_advantages(rollout, config.ppo.gamma, config.ppo.gae_lambda)
        return update(
            state.algorithm.policy(),
            state.algorithm.tensors.optimizer,
            rollout,
            advantages,
            config.ppo,
            0.0,
            state.algorithm.shuffler,
            group=group,
        )

    def work(group):
        own = 2 * minibatches(group, None, 2).approx_kl  # the first epoch's is 0, before any step
        low, high = sorted(group.stack(torch.tensor([own])).flatten().tolist())
        stats = minibatches(group, low + 0.25 * (high - low), 4)
        return [low < high, stats.minibatches]

    assert together(work, timeout_seconds=5) == [[True, 2], [True, 2]]


def test_ranks_stay_equal_over_iterations_though_they_play_other_episodes(together):
    def work(group):
        state = new_training_state(config_of(2, minibatch_size=8, learning_rate=1e-2), group)
        reports = [report for report, _ in zip(train(state), range(3), strict=False)]
        return [
            weights_digest(state.algorithm.policy()),
            state.algorithm.tensors.sampler.get_state().sum().item(),
            reports[-1].env_steps,
        ]

    leader, follower = together(work)
    assert leader[0] == follower[0]
    assert leader[1] != follower[1]
    assert leader[2] == follower[2] == 3 * 2 * 2 * 16


def test_environments_have_the_seeds_that_one_process_with_all_of_them_would_give():
    ranks = [Group(), Group()]
    ranks[1].rank = 1
    seeds = [own_env_seeds(config_of(2), rank) for rank in ranks]
    assert seeds[0] + seeds[1] == own_env_seeds(config_of(4), ALONE)


def test_statistics_over_ranks_are_those_of_all_samples(together):
    samples = torch.randn(2, 50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def work(group):
        moments = RunningMoments((3,))
        for batch in samples[group.rank].split(25):
            moments.update(batch, group.stack)
        return [moments.mean.tolist(), moments.variance.tolist(), moments.count.item()]

    first, second = together(work)
    assert first == second
    flat = samples.flatten(0, 1)
    torch.testing.assert_close(torch.tensor(first[0]).double(), flat.mean(dim=0), rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.tensor(first[1]).double(), flat.var(dim=0, correction=0), rtol=0, atol=1e-6)
    assert first[2] == 100


def test_everybody_gets_the_leaders_weights_and_statistics(together):
    def work(group):
        torch.manual_seed(group.rank)
        module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        module[1].running_mean.fill_(float(group.rank))
        before = weights_digest(module)
        equalize(module, group)
        return [before, weights_digest(module)]

    leader, follower = together(work)
    assert leader[0] != follower[0]
    assert leader[0] == leader[1] == follower[1]


def report_of(rank):
    stats = PpoStats(1.0 + rank, 2.0, 0.5, 0.0, 0.1, 0.2, 0.9, 3.0, 1e-3, 8)
    episode = EpisodeResult(None, 10.0 * rank, 5, terminated=True, env_index=rank, extras={"x": float(rank)})
    return IterationReport(4, 64, stats, (episode,), PhaseTimes(), {"both": float(rank), f"only/{rank}": 7.0})


def test_the_leader_reports_the_episodes_of_all_and_the_means_of_their_figures(together):
    def work(group):
        report = shared_report(report_of(group.rank), group)
        return [report.update.metrics()["losses/policy_loss"], len(report.episodes), report.metrics]

    leader, follower = together(work)
    assert leader == [1.5, 2, {"both": 0.5, "only/0": 7.0, "only/1": 7.0}]
    assert follower == [2.0, 1, {"both": 1.0, "only/1": 7.0}]


def test_the_leader_hears_what_each_rank_worked_itself_without_its_waiting(together):
    def work(group):
        times = PhaseTimes(rollout=1.0 + group.rank, learn=0.5, other=9.0, waiting=0.25)
        return shared_report(replace(report_of(group.rank), times=times), group).rank_seconds

    assert together(work) == [[1.25, 2.25], []]


def test_alone_a_report_stays_the_very_same():
    report = report_of(0)
    assert shared_report(report, ALONE) is report


def test_environments_are_numbered_over_all_ranks():
    second = Group()
    second.rank = 1
    (episode,) = numbered(report_of(0).episodes, second, env_count=8, env_step=640)
    assert (episode.env_index, episode.env_step) == (8, 640)


def test_a_single_bit_changes_the_digest():
    module = nn.Linear(3, 3)
    before = weights_digest(module)
    with torch.no_grad():
        module.weight[0, 0] = torch.nextafter(module.weight[0, 0], torch.tensor(9.0))
    assert weights_digest(module) != before
