import numpy as np
import pytest
import torch

from palaestra.apps.matmul.agent.census import views_of
from palaestra.apps.matmul.agent.demonstrations import sample_synthetic
from palaestra.apps.matmul.agent.network import AgentNetwork, both_inputs
from palaestra.apps.matmul.schemes.factorization import Format

SMALL = Format(2, 2, 2)
VIEWS = views_of(SMALL)


@pytest.fixture
def network(one_thread):
    torch.manual_seed(3)
    return AgentNetwork(VIEWS, 8, 16)


def values(count, seed=1):
    examples = sample_synthetic(SMALL, count, 6, np.random.default_rng(seed))
    return (*both_inputs(examples.tensors, VIEWS), torch.from_numpy(examples.moves - 1), examples)


@torch.no_grad()
def test_the_probabilities_of_all_moves_sum_to_one(network):
    _, policy_input, _, _ = values(3)
    chances = network.log_priors(policy_input[0]).exp()
    assert chances.shape == (15, 15, 15)
    assert float(chances.sum()) == pytest.approx(1.0, abs=1e-5)


@torch.no_grad()
def test_the_policy_loss_is_the_mean_negative_log_probability(network):
    _, policy_input, moves, _ = values(4)
    by_hand = [network.log_priors(one)[tuple(move)] for one, move in zip(policy_input, moves, strict=True)]
    loss = network.policy_loss(policy_input, moves)
    assert float(loss) == pytest.approx(-float(torch.stack(by_hand).mean()), rel=1e-4)


@torch.no_grad()
def test_v_depends_on_u_and_w_on_both(network):
    _, policy_input, _, _ = values(1)
    logs = network.log_priors(policy_input[0])
    second = torch.log_softmax(logs.logsumexp(dim=2), dim=1)
    assert not torch.allclose(second[0], second[1], atol=1e-3)


@torch.no_grad()
def test_sample_frequencies_match_the_probabilities(network):
    _, policy_input, _, _ = values(1)
    throws = torch.from_numpy(np.random.default_rng(7).random((20_000, 3), np.float32))
    drawn = network.sample(policy_input[0], throws)
    shares = torch.bincount(drawn[:, 0], minlength=15) / len(drawn)
    chances = network.log_priors(policy_input[0]).exp().sum(dim=(1, 2))
    assert float((shares - chances).abs().max()) < 0.02


def test_a_few_updates_learn_the_number_of_moves_left(network):
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    rng = np.random.default_rng(1)
    losses = []
    for _ in range(80):
        examples = sample_synthetic(SMALL, 64, 5, rng)
        value_input, _ = both_inputs(examples.tensors, VIEWS)
        loss = network.value_loss(value_input, torch.from_numpy(examples.remaining))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:3])
    one, four = (sample_synthetic(SMALL, 1, 1, rng), sample_synthetic(SMALL, 200, 4, rng))
    four = four.select(four.remaining == 4)
    assert network.moves_left(both_inputs(one.tensors, VIEWS)[0]).mean() < 2
    assert network.moves_left(both_inputs(four.tensors, VIEWS)[0]).mean() > 3
