import io
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.algorithms import serialization
from palaestra.algorithms.group import ALONE, Group
from palaestra.algorithms.ppo.tensors import build_tensors
from palaestra.checkpoints import torch_file
from palaestra.checkpoints.weights import policy_to_bytes as policy_bytes
from palaestra.checkpoints.weights import trainer_state_from_bytes
from palaestra.config.train import TrainConfig
from palaestra.core.errors import DamagedFile
from palaestra.core.seeds import draw_seed
from palaestra.policies.warm_start import WarmStart
from palaestra.training import state as state_module
from palaestra.training.engines import choose
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
PARTS = ["optimizer", "rollout_buffer", "memory", "reward_sums", "sampler", "shuffler", "envs", "curriculum"]


def weights(state) -> list[float]:
    return torch.cat([value.double().flatten() for value in state.algorithm.policy().state_dict().values()]).tolist()


def run_on(state, iterations: int):
    for _, report in zip(range(iterations), train(state), strict=False):
        last = report
    return last


def saved_after(iterations: int):
    state = new_training_state(CONFIG)
    run_on(state, iterations)
    stream = io.BytesIO()
    torch.save({"model": state.algorithm.policy().state_dict(), "trainer": state.capture()}, stream)
    stream.seek(0)
    return state, torch.load(stream, weights_only=True)


@pytest.mark.fault("R1")
def test_a_restored_state_goes_on_bit_for_bit():
    state, saved = saved_after(4)
    expected = run_on(state, 4)
    other = new_training_state(CONFIG.model_copy(update={"seed": 99}))  # nothing may come from its own start
    other.algorithm.policy().load_state_dict(saved["model"])
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
    fresh.algorithm.policy().load_state_dict(saved["model"])
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
    assert state.algorithm.engine == "native"
    run_on(state, 2)
    with_torch, weights_with_torch = state.capture(), policy_bytes(state.algorithm.weights())
    monkeypatch.setattr(serialization, "has_torch", lambda: False)
    without = trainer_state_from_bytes(torch_file.trainer_state_to_bytes(state.capture()))
    assert torch_file.policy_to_bytes(state.algorithm.weights()) == weights_with_torch
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
    torch.save({"model": state.algorithm.policy().state_dict(), "trainer": state.capture()}, stream)
    stream.seek(0)
    saved = torch.load(stream, weights_only=True)
    expected = run_on(state, 4)
    other = new_training_state(CROWD.model_copy(update={"seed": 99}))
    other.algorithm.policy().load_state_dict(saved["model"])
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
        assert state.algorithm.action_seed == draw_seed(CONFIG.seed, "dice", group.rank)
        orders = np.random.default_rng(draw_seed(CONFIG.seed, "minibatches", group.rank))
        assert state.algorithm.shuffler.bit_generator.state == orders.bit_generator.state
    given = []
    monkeypatch.setattr(state_module, "Curriculum", lambda *words: words)
    monkeypatch.setattr(choose, "build_numpy_network", lambda *words: given.append(words[-1]))
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


def test_counts_and_action_seed_are_restored_and_older_states_do_without_action_seed_and_engine():
    state, saved = saved_after(2)
    other = new_training_state(CONFIG.model_copy(update={"seed": 99}))
    own = other.algorithm.action_seed
    older = {name: part for name, part in saved["trainer"].items() if name not in {"action_seed", "engine"}}
    other.restore(older)
    assert (other.iteration, other.env_steps, other.algorithm.action_seed, other.algorithm.engine) == (
        2,
        128,
        own,
        "torch",
    )
    other.restore(saved["trainer"])
    assert other.algorithm.action_seed == state.algorithm.action_seed != own
    assert (engine_of({}), engine_of({"engine": "native"})) == ("torch", "native")


def test_what_was_saved_does_not_change_when_training_goes_on_from_it():
    state, saved = saved_after(1)
    sums, memory = saved["trainer"]["reward_sums"], saved["trainer"]["memory"]
    before = sums.clone(), {name: part.clone() for name, part in memory.items()}
    state.restore(saved["trainer"])
    state.algorithm.tensors.reward_sums.add_(1)
    for part in state.algorithm.tensors.memory.values():
        part.add_(1)
    assert torch.equal(sums, before[0])
    assert memory
    assert all(torch.equal(part, before[1][name]) for name, part in memory.items())


def test_a_teacher_is_captured_and_restored_with_the_rest():
    restored = []
    state = new_training_state(CONFIG)
    assert state.capture()["teacher"] is None
    state.algorithm.tensors.teacher = SimpleNamespace(capture=lambda: {"lessons": 3}, restore=restored.append)
    saved = state.capture()
    assert saved["teacher"] == {"lessons": 3}
    state.restore(saved)
    assert restored == [{"lessons": 3}]


def test_a_state_with_the_entry_names_of_version_0_1_continues_bit_for_bit():
    state, saved = saved_after(2)
    old_names = {"rollout_buffer": "tape", "action_seed": "dice"}
    old = {old_names.get(name, name): part for name, part in saved["trainer"].items() if name != "algorithm"}
    assert {"tape", "dice"} <= old.keys()
    other = new_training_state(CONFIG)
    other.algorithm.policy().load_state_dict(saved["model"])
    other.restore(old)
    run_on(other, 2)
    run_on(state, 2)
    assert weights(other) == weights(state)


def test_the_algorithm_exports_its_envs_before_a_capture(monkeypatch):
    state = new_training_state(CONFIG)
    calls = []
    monkeypatch.setattr(state.algorithm, "export_env_state", lambda: calls.append("export"))
    monkeypatch.setattr(state.envs, "capture", lambda: calls.append("capture"))
    state.capture()
    assert calls == ["export", "capture"]


def test_environments_that_cannot_be_captured_start_new_episodes_with_seeds_of_their_own():
    state, saved = saved_after(2)
    seeds = []
    reset = state.envs.reset
    state.envs.reset = lambda given, out: seeds.append(given) or reset(given, out)
    state.algorithm.buffer.starts[0] = False
    state.restore({**saved["trainer"], "envs": None})
    assert seeds == [own_env_seeds(CONFIG, ALONE, 2)]
    assert state.algorithm.buffer.starts[0].all()
    assert all(not part.any() for part in state.algorithm.tensors.memory.values())


def test_the_interface_is_the_environments_where_the_network_is_known_without_torch_and_else_the_policys():
    native, other = new_training_state(NATIVE), new_training_state(CONFIG)
    assert native.algorithm.interface is native.envs.interface
    assert other.algorithm.interface is other.algorithm.policy().interface
    native.algorithm.tensors.segment_length = 7
    assert native.algorithm.segment_length == 1
    assert native.algorithm.weights() is native.algorithm.policy()


def test_weights_of_another_run_leave_no_network_without_torch():
    warm_start = WarmStart(new_training_state(NATIVE).algorithm.interface, "first:5")
    assert new_training_state(NATIVE, warm_start=warm_start).algorithm.network is None


def test_tensors_wait_only_for_a_network_that_the_native_engine_knows_while_torch_is_not_imported(monkeypatch):
    built = []
    monkeypatch.setattr(
        choose, "ppo_tensors", SimpleNamespace(build_tensors=lambda *_: built.append(1) or build_tensors(*_))
    )

    def has_tensors(config, group=ALONE):
        built.clear()
        new_training_state(config, group)
        return built == [1]

    assert has_tensors(NATIVE)
    monkeypatch.setattr(choose, "sys", SimpleNamespace(modules={}))
    assert not has_tensors(NATIVE)
    assert not has_tensors(NATIVE, Second())
    assert has_tensors(NATIVE.model_copy(update={"engine": "torch"}))
    assert has_tensors(CONFIG)
