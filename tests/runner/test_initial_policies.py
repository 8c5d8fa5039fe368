"""A warm start from another run, a teacher, and checkpoints that only the leader's machine has."""

import gymnasium
import numpy as np
import pytest
import torch

from palaestra.algorithms.group import ALONE, Group
from palaestra.checkpoints.loading import load_policy
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.run import RunRequest
from palaestra.core.spaces import FeatureSpec
from palaestra.runner.initial_policies import find_warm_start, load_shared_policy, load_teacher, load_warm_start
from palaestra.runner.job import TrainingJob
from palaestra.runner.train import run_training
from palaestra.runs.journal import read_journal


class Recorder(Group):
    """The leader of two; keeps what it sent."""

    world_size = 2

    def __init__(self):
        self.sent = []

    def broadcast_bytes(self, data):
        self.sent.append(data)
        return data


class Follower(Group):
    rank, world_size = 1, 2

    def __init__(self, sent):
        self.sent = list(sent)

    def broadcast_bytes(self, data):
        return self.sent.pop(0)


@pytest.fixture
def shared_root(tmp_path):
    settings = {
        "total_steps": 32,
        "ppo": {"env_count": 2, "horizon": 16, "minibatch_size": 16},
        "loggers": {"console": False, "tensorboard": False},
    }
    run_training(
        TrainingJob(
            RunRequest("native", "", {}, name="master"), TrainConfig.model_validate(settings), tmp_path / "runs"
        )
    )
    return tmp_path / "runs"


def test_a_follower_without_the_run_gets_the_leaders_policy(shared_root, tmp_path):
    leader = Recorder()
    expected = load_shared_policy("master", shared_root, leader).policy.state_dict()
    taken = load_shared_policy("master", tmp_path / "empty", Follower(leader.sent)).policy.state_dict()
    assert taken.keys() == expected.keys() != set()
    assert all(torch.equal(taken[name], expected[name]) for name in taken)


def test_a_single_process_loads_the_policy_of_the_target(shared_root):
    shared, loaded = load_shared_policy("master", shared_root, Group()), load_policy("master", shared_root)
    expected = loaded.policy.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in shared.policy.state_dict().items())


SETTINGS = {
    "total_steps": 64,
    "ppo": {"env_count": 2, "horizon": 16, "minibatch_size": 16, "update_epochs": 1},
    "loggers": {"console": False, "tensorboard": False},
}


def request_named(name: str) -> RunRequest:
    return RunRequest(kind="native", recipe="", config={}, name=name)


def taught_by(target: str, **changes) -> TrainConfig:
    ppo = {**SETTINGS["ppo"], "kickstart": {"teacher": target}}
    return TrainConfig.model_validate({**SETTINGS, **changes, "ppo": ppo})


@pytest.fixture
def teacher_root(tmp_path):
    run_training(TrainingJob(request_named("master"), TrainConfig.model_validate(SETTINGS), tmp_path))
    return tmp_path


def test_no_teacher_is_loaded_without_a_target(tmp_path):
    assert load_teacher(TrainConfig(), tmp_path) is None


def test_the_teacher_is_the_policy_of_the_checkpoint_and_cannot_learn(teacher_root):
    teacher = load_teacher(taught_by("master:latest"), teacher_root)
    assert teacher is not None
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


def test_a_run_learns_from_the_teacher_named_in_its_configuration(teacher_root):
    outcome = run_training(TrainingJob(request_named("pupil"), taught_by("master"), teacher_root))
    assert outcome.exit_code == 0
    assert {"kickstart/action_loss", "kickstart/value_loss"} <= set(outcome.metrics)
    assert torch.isfinite(torch.tensor(outcome.metrics["kickstart/action_loss"]))


def test_a_teacher_that_does_not_exist_or_fit_is_refused_and_leaves_nothing_on_disk(teacher_root):
    before = sorted(teacher_root.iterdir())
    with pytest.raises(NotFound):
        run_training(TrainingJob(request_named("orphan"), taught_by("nobody:best"), teacher_root))
    with pytest.raises(UsageError, match="The teacher's observations are box"):
        run_training(TrainingJob(request_named("other"), taught_by("master", env={"id": "Acrobot-v1"}), teacher_root))
    assert sorted(teacher_root.iterdir()) == before


FEATURE_ORDER = {"order": ["near", "far"]}  # names of the observation's entries; a newer environment may swap them


class NamedFeatures(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self) -> None:
        self.feature_specs = [FeatureSpec(name, index) for index, name in enumerate(FEATURE_ORDER["order"])]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), float(action), False, False, {}


gymnasium.register("tests/NamedFeatures-v0", NamedFeatures, max_episode_steps=10)


@pytest.fixture
def settings(small_config):
    return lambda **changes: small_config(env={"id": "tests/NamedFeatures-v0"}, **changes)


@pytest.fixture
def older(tmp_path, settings, request_of):
    return run_training(TrainingJob(request_of("older"), settings(seed=3), tmp_path, quiet=True))


def features_saved(directory) -> list[tuple[str, int]]:
    latest = CheckpointManager(directory).list_all_checkpoints()[-1]
    return [(feature["name"], feature["id"]) for feature in latest.interface["features"]]


def test_without_initial_weights_a_run_starts_fresh(tmp_path):
    assert load_warm_start(TrainConfig(), tmp_path) is None
    assert find_warm_start(TrainConfig(), tmp_path, None, ALONE) is None


def test_a_warm_start_takes_the_weights_and_records_their_checkpoint(tmp_path, settings, request_of, older):
    still = {"ppo": {"env_count": 2, "horizon": 16, "minibatch_size": 16, "update_epochs": 1, "learning_rate": 0.0}}
    outcome = run_training(
        TrainingJob(request_of("younger"), settings(initial_weights="older:2", **still), tmp_path, quiet=True)
    )
    ours, _ = CheckpointManager(outcome.directory).load_weights("latest")
    theirs, _ = CheckpointManager(older.directory).load_weights(2)
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)
    [started] = [entry for entry in read_journal(outcome.directory.journal_file) if entry.event == "run.started"]
    assert started.data["initial_weights"] == f"{older.directory.id}:2"


def test_weights_that_do_not_exist_or_fit_are_refused_and_leave_nothing_on_disk(tmp_path, settings, request_of, older):
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(NotFound):
        run_training(TrainingJob(request_of("orphan"), settings(initial_weights="nobody:best"), tmp_path, quiet=True))
    with pytest.raises(UsageError, match="do not fit this run's policy"):
        other = {"graph": "mlp", "settings": {"hidden": [8]}}
        run_training(
            TrainingJob(request_of("odd"), settings(initial_weights="older", policy=other), tmp_path, quiet=True)
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_run_with_a_checkpoint_of_its_own_continues_from_it(tmp_path, settings, request_of, older):
    requested = settings(initial_weights="older")
    younger = run_training(TrainingJob(request_of("younger"), requested, tmp_path, quiet=True))
    origin = find_warm_start(requested, tmp_path, younger.directory, ALONE)
    assert (origin.weights, origin.checkpoint) == (None, "")


def test_a_resumed_run_keeps_its_feature_ids_when_the_environment_has_other_ones(
    tmp_path, settings, request_of, older, monkeypatch
):
    assert features_saved(older.directory) == [("near", 0), ("far", 1)]
    monkeypatch.setitem(FEATURE_ORDER, "order", ["far", "near"])
    longer = settings(seed=3, total_steps=256)
    run_training(
        TrainingJob(request_of("older"), longer, tmp_path, quiet=True, accept_changes=frozenset({"total_steps"}))
    )
    assert features_saved(older.directory) == [("near", 0), ("far", 1)]
