import io
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.algorithms import serialization
from palaestra.algorithms.group import ALONE, Group
from palaestra.checkpoints import torch_file
from palaestra.checkpoints.weights import policy_to_bytes as policy_bytes
from palaestra.checkpoints.weights import trainer_state_from_bytes
from palaestra.config.train import TrainConfig
from palaestra.core.errors import DamagedFile
from palaestra.core.seeds import draw_seed
from palaestra.policies.warm_start import Origin
from palaestra.training import state as state_module
from palaestra.training.state import engine_of, env_seeds, new_training_state, own_env_seeds
from palaestra.training.trainer import train

REMEMBERING = """
schema_version: 1
summary: a small LSTM
nodes:
  input:  {type: vector, source: observation}
  memory: {type: lstm, source: input, size: 8}
  action: {type: action_head, source: memory}
  value:  {type: value_head, source: memory}
"""
CONFIG = TrainConfig(
    engine="torch",
    total_steps=640,
    policy={"graph": REMEMBERING, "normalize_observations": True, "normalize_returns": True},
    curriculum={"tasks": {"usual": {}, "other": {"kwargs": {"sutton_barto_reward": True}}}},
    ppo={"env_count": 2, "horizon": 32, "minibatch_size": 32},
)
NATIVE = TrainConfig(total_steps=256, ppo={"env_count": 3, "horizon": 16, "minibatch_size": 16})
PARTS = ["optimizer", "tape", "memory", "reward_sums", "sampler", "shuffler", "envs", "curriculum"]


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


@pytest.mark.fault("R1")
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


@pytest.mark.fault("R2")
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


def test_the_dice_that_everybody_shares_go_on_too():
    """Environments and networks of strangers may draw from them."""

    def draws():
        return random.random(), float(np.random.random()), float(torch.rand(()))

    state = new_training_state(CONFIG)
    captured = state.capture()
    expected = draws()
    assert draws() != expected
    state.restore(captured)
    assert draws() == expected


def test_before_torch_has_come_a_capture_is_written_as_it_would_be_with_it(monkeypatch):
    state = new_training_state(NATIVE)
    assert state.engine.name == "native"
    run_on(state, 2)
    with_torch, weights_with_torch = state.capture(), policy_bytes(state.policy)
    monkeypatch.setattr(serialization, "has_torch", lambda: False)
    without = trainer_state_from_bytes(torch_file.trainer_state_to_bytes(state.capture()))
    assert torch_file.policy_to_bytes(state.policy) == weights_with_torch
    assert not different(with_torch, without)


def different(one, other) -> bool:
    if isinstance(one, dict):
        return one.keys() != other.keys() or any(different(part, other[name]) for name, part in one.items())
    if isinstance(one, list | tuple):
        return len(one) != len(other) or any(map(different, one, other))
    if isinstance(one, torch.Tensor):
        return one.dtype != other.dtype or not torch.equal(one, other)
    return type(one) is not type(other) or one != other


@pytest.mark.fault("C18")
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


class Second(Group):
    """The other rank of two; nothing is said between them while a state is made."""

    rank, world_size = 1, 2


def test_every_rank_draws_tasks_of_its_own():
    states = [new_training_state(CONFIG, group) for group in (ALONE, Second())]
    drawn = [[state.curriculum.next_options(0)["task"] for _ in range(40)] for state in states]
    assert drawn[0] != drawn[1]
    assert set(drawn[0]) == set(drawn[1]) == {"usual", "other"}


def test_a_state_of_another_run_is_refused_as_damaged():
    state, saved = saved_after(1)
    del saved["trainer"]["sampler"]
    with pytest.raises(DamagedFile, match="does not fit this run"):
        state.restore(saved["trainer"])


CROWD = TrainConfig(
    total_steps=9 * 8 * 20,
    env={"id": "palaestra/Crowd-v0", "kwargs": {"agents": 3, "steps": 5}},
    curriculum={"tasks": {"own": {}, "shared": {"kwargs": {"shared": True}}}},
    policy={"graph": "mlp", "settings": {"hidden": [16]}, "normalize_returns": True},
    ppo={"env_count": 9, "horizon": 8, "minibatch_size": 36},
)


def test_a_batch_of_worlds_is_trained_in_and_goes_on_bit_for_bit_after_a_restore():
    state = new_training_state(CROWD)
    assert state.envs.count == 9
    run_on(state, 3)
    stream = io.BytesIO()
    torch.save({"model": state.agent.state_dict(), "trainer": state.capture()}, stream)
    stream.seek(0)
    saved = torch.load(stream, weights_only=True)
    expected = run_on(state, 4)
    other = new_training_state(CROWD.model_copy(update={"seed": 99}))
    other.agent.load_state_dict(saved["model"])
    other.restore(saved["trainer"])
    report = run_on(other, 4)
    assert (report.update, report.episodes, report.metrics) == (expected.update, expected.episodes, expected.metrics)
    assert weights(other) == weights(state)
    assert report.episodes


def test_steps_are_counted_per_player_and_tasks_per_world():
    state = new_training_state(CROWD)
    report = run_on(state, 5)  # 40 steps: 8 episodes of 5 in each of 3 worlds
    assert report.env_steps == 5 * 8 * 9
    assert report.metrics["tasks/completed"] == 8 * 3
    assert {episode.env_index for episode in report.episodes} == set(range(9))


def test_two_ranks_of_n_rows_have_the_seeds_that_one_of_twice_as_many_has():
    class Second(Group):
        rank, world_size = 1, 2

    both = CROWD.model_copy(update={"ppo": CROWD.ppo.model_copy(update={"env_count": 18})})
    whole = env_seeds(both.seed, 18)
    assert own_env_seeds(CROWD, Second()) == whole[9:]


@pytest.mark.fault("R8")
def test_worlds_that_were_not_captured_begin_anew_with_other_seeds(monkeypatch):
    state = new_training_state(CROWD)
    run_on(state, 1)
    saved = state.capture()
    saved["envs"] = None
    state.restore(saved)
    fresh = new_training_state(CROWD)
    assert state.envs.capture()["seeds"].tolist() != fresh.envs.capture()["seeds"].tolist()
    assert state.envs.capture()["seeds"].tolist() == own_env_seeds(CROWD, ALONE, 1)[::3]


def draws():
    """From the dice that everybody shares."""
    return random.random(), float(np.random.random()), float(torch.rand(()))


def test_every_dice_follows_from_the_seed_by_its_name_and_rank(monkeypatch):
    for group in (ALONE, Second()):
        state = new_training_state(CONFIG, group)
        assert state.dice == draw_seed(CONFIG.seed, "dice", group.rank)
        orders = np.random.default_rng(draw_seed(CONFIG.seed, "minibatches", group.rank))
        assert state.shuffler.bit_generator.state == orders.bit_generator.state
    given = []
    monkeypatch.setattr(state_module, "Curriculum", lambda *words: words)
    monkeypatch.setattr(state_module, "draft_network", lambda *words: given.append(words[-1]))
    assert state_module._new_curriculum(CONFIG, Second())[1:] == (2, draw_seed(CONFIG.seed, "tasks", 1))
    new_training_state(NATIVE)
    assert given == [draw_seed(NATIVE.seed, "weights")]


def test_the_shared_dice_are_those_of_the_seed_for_the_leader_and_of_its_rank_for_others():
    first = [new_training_state(CONFIG) and draws() for _ in range(2)]
    assert first[0] == first[1]
    new_training_state(CONFIG, Second())
    own, seed = draws(), draw_seed(CONFIG.seed, "global", 1)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    assert own == draws()


def test_seeds_of_environments_follow_from_seed_and_iteration():
    assert env_seeds(7, 4, 3) == np.random.SeedSequence([7, 3, 14]).generate_state(4).tolist()
    assert env_seeds(7, 4) == env_seeds(7, 4, 0)
    assert own_env_seeds(CROWD, ALONE) == env_seeds(CROWD.seed, 9, 0)


def test_counts_and_dice_are_restored_and_older_states_do_without_dice_and_engine():
    state, saved = saved_after(2)
    other = new_training_state(CONFIG.model_copy(update={"seed": 99}))
    own = other.dice
    older = {name: part for name, part in saved["trainer"].items() if name not in {"dice", "engine"}}
    other.restore(older)
    assert (other.iteration, other.env_steps, other.dice, other.engine.name) == (2, 128, own, "torch")
    other.restore(saved["trainer"])
    assert other.dice == state.dice != own
    assert (engine_of({}), engine_of({"engine": "native"})) == ("torch", "native")


def test_what_was_saved_does_not_change_when_training_goes_on_from_it():
    state, saved = saved_after(1)
    sums, memory = saved["trainer"]["reward_sums"], saved["trainer"]["memory"]
    before = sums.clone(), {name: part.clone() for name, part in memory.items()}
    state.restore(saved["trainer"])
    state.reward_sums.add_(1)
    for part in state.memory.values():
        part.add_(1)
    assert torch.equal(sums, before[0])
    assert memory
    assert all(torch.equal(part, before[1][name]) for name, part in memory.items())


def test_a_teacher_is_captured_and_restored_with_the_rest():
    restored = []
    state = new_training_state(CONFIG)
    assert state.capture()["teacher"] is None
    state.learned.teacher = SimpleNamespace(capture=lambda: {"lessons": 3}, restore=restored.append)
    saved = state.capture()
    assert saved["teacher"] == {"lessons": 3}
    state.restore(saved)
    assert restored == [{"lessons": 3}]


def test_the_engine_exports_its_envs_before_a_capture_and_is_invalidated_after_a_restore(monkeypatch):
    calls = []
    state = new_training_state(CONFIG)
    engine = SimpleNamespace(
        name="torch",
        export_env_state=lambda: calls.append("export_env_state"),
        invalidate=lambda: calls.append("invalidate"),
    )
    state.engine = engine
    saved = state.capture()
    assert (calls, saved["engine"]) == (["export_env_state"], "torch")
    monkeypatch.setattr(state_module, "engine_to_go_on_with", lambda *_: engine)
    state.restore(saved)
    assert calls == ["export_env_state", "invalidate"]


def test_a_draft_speaks_for_itself_and_an_agent_for_what_has_none():
    drafted, other = new_training_state(NATIVE), new_training_state(CONFIG)
    assert drafted.interface is drafted.envs.interface
    assert other.interface is other.agent.interface
    drafted.learned.stretch = other.learned.stretch = 7
    assert (drafted.stretch, other.stretch) == (1, 7)
    assert drafted.policy is drafted.agent


def test_who_begins_with_the_weights_of_another_run_says_so_and_has_no_draft():
    origin = Origin(new_training_state(NATIVE).interface, "first:5")
    state = new_training_state(NATIVE, origin=origin)
    assert (state.began_with, state.draft) == ("first:5", None)
    assert new_training_state(NATIVE).began_with == ""


def test_tensors_wait_only_for_a_draft_with_the_native_engine_before_torch_has_come(monkeypatch):
    def has_tensors(config, group=ALONE):
        return "learned" in vars(new_training_state(config, group))

    assert has_tensors(NATIVE)
    monkeypatch.setattr(state_module, "sys", SimpleNamespace(modules={}))
    assert not has_tensors(NATIVE)
    assert not has_tensors(NATIVE, Second())
    assert has_tensors(NATIVE.model_copy(update={"engine": "torch"}))
    assert has_tensors(CONFIG)
