"""A run that begins with another run's weights, and one that goes on after its environment learned new words."""

import gymnasium
import numpy as np
import pytest

from palaestra.algorithms.group import ALONE
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.spaces import FeatureSpec
from palaestra.runner.beginning import find_warm_start, load_origin
from palaestra.runner.job import TrainingJob
from palaestra.runner.train import run_training
from palaestra.runs.journal import read_journal

WORDS = {"order": ["near", "far"]}  # what the environment calls its numbers today; a newer version may say otherwise


class Worded(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self) -> None:
        self.feature_specs = [FeatureSpec(name, index) for index, name in enumerate(WORDS["order"])]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), float(action), False, False, {}


gymnasium.register("tests/Worded-v0", Worded, max_episode_steps=10)


@pytest.fixture
def settings(small_config):
    return lambda **changes: small_config(env={"id": "tests/Worded-v0"}, **changes)


@pytest.fixture
def older(tmp_path, settings, request_of):
    return run_training(TrainingJob(request_of("older"), settings(seed=3), tmp_path, quiet=True))


def features_saved(directory) -> list[tuple[str, int]]:
    latest = CheckpointManager(directory).list_all_checkpoints()[-1]
    return [(feature["name"], feature["id"]) for feature in latest.interface["features"]]


def test_without_a_word_a_run_begins_fresh(tmp_path):
    assert load_origin(TrainConfig(), tmp_path) is None
    assert find_warm_start(TrainConfig(), tmp_path, None, ALONE) is None


def test_a_run_begins_with_the_weights_it_was_told_and_says_whose_they_are(tmp_path, settings, request_of, older):
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


def test_what_is_not_there_or_does_not_fit_is_refused_and_leaves_nothing_behind(tmp_path, settings, request_of, older):
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(NotFound):
        run_training(TrainingJob(request_of("orphan"), settings(initial_weights="nobody:best"), tmp_path, quiet=True))
    with pytest.raises(UsageError, match="do not fit this run's policy"):
        other = {"graph": "mlp", "settings": {"hidden": [8]}}
        run_training(
            TrainingJob(request_of("odd"), settings(initial_weights="older", policy=other), tmp_path, quiet=True)
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_run_with_a_checkpoint_of_its_own_goes_on_from_that(tmp_path, settings, request_of, older):
    asked = settings(initial_weights="older")
    younger = run_training(TrainingJob(request_of("younger"), asked, tmp_path, quiet=True))
    origin = find_warm_start(asked, tmp_path, younger.directory, ALONE)
    assert (origin.weights, origin.checkpoint) == (None, "")


def test_a_resumed_run_keeps_its_ids_when_the_environment_has_others_by_now(
    tmp_path, settings, request_of, older, monkeypatch
):
    assert features_saved(older.directory) == [("near", 0), ("far", 1)]
    monkeypatch.setitem(WORDS, "order", ["far", "near"])
    longer = settings(seed=3, total_steps=256)
    run_training(
        TrainingJob(request_of("older"), longer, tmp_path, quiet=True, accept_changes=frozenset({"total_steps"}))
    )
    assert features_saved(older.directory) == [("near", 0), ("far", 1)]
