import io

import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.contracts.errors import DamagedFile
from palaestra.training.state import env_seeds, new_training_state
from palaestra.training.trainer import train

CONFIG = TrainConfig(
    total_steps=640,
    policy={"normalize_observations": True, "normalize_returns": True},
    ppo={"env_count": 2, "horizon": 32, "minibatch_size": 32},
)
PARTS = ["optimizer", "tape", "reward_sums", "sampler", "shuffler", "envs"]


def weights(state) -> list[float]:
    return torch.cat([value.double().flatten() for value in state.agent.state_dict().values()]).tolist()


def run_on(state, iterations: int):
    for _, report in zip(range(iterations), train(state), strict=False):
        last = report
    return last


def saved_after(iterations: int):
    state = new_training_state(CONFIG)
    run_on(state, iterations)
    stream = io.BytesIO()
    torch.save({"model": state.agent.state_dict(), "trainer": state.capture()}, stream)
    stream.seek(0)
    return state, torch.load(stream, weights_only=True)


def test_a_restored_state_goes_on_bit_for_bit():
    state, saved = saved_after(4)
    expected = run_on(state, 4)
    other = new_training_state(CONFIG.model_copy(update={"seed": 99}))  # nothing may come from its own start
    other.agent.load_state_dict(saved["model"])
    other.restore(saved["trainer"])
    report = run_on(other, 4)
    assert report.update == expected.update
    assert report.episodes == expected.episodes
    assert weights(other) == weights(state)


@pytest.mark.parametrize("part", PARTS)
def test_leaving_out_any_one_part_is_seen(part):
    state, saved = saved_after(4)
    fresh = new_training_state(CONFIG)
    fresh.agent.load_state_dict(saved["model"])
    saved["trainer"][part] = fresh.capture()[part]
    fresh.restore(saved["trainer"])
    run_on(state, 4)
    run_on(fresh, 4)
    assert weights(fresh) != weights(state)


def test_a_capture_does_not_change_while_training_goes_on():
    state = new_training_state(CONFIG)
    run_on(state, 2)
    captured = state.capture()
    first = captured["optimizer"]["exp_avg"].clone()
    run_on(state, 2)
    assert torch.equal(captured["optimizer"]["exp_avg"], first)
    assert captured["iteration"] == 2


def test_the_same_seed_gives_the_same_beginning_and_another_seed_another():
    assert weights(new_training_state(CONFIG)) == weights(new_training_state(CONFIG))
    assert weights(new_training_state(CONFIG)) != weights(new_training_state(CONFIG.model_copy(update={"seed": 2})))


def test_runs_with_neighbouring_seeds_share_no_environment():
    drawn = [seed for run in range(50) for seed in env_seeds(run, 8)]
    assert len(set(drawn)) == len(drawn)


def test_a_state_of_another_run_is_refused_as_damaged():
    state, saved = saved_after(1)
    del saved["trainer"]["sampler"]
    with pytest.raises(DamagedFile, match="does not fit this run"):
        state.restore(saved["trainer"])
