import pytest
import torch

from palaestra.algorithms.ppo.torch_ppo import TorchPpo
from palaestra.core.errors import DamagedFile
from palaestra.runner import resume as resume_module
from palaestra.runner.resume import resume
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train


@pytest.fixture
def saved(bench):
    """Two iterations on, with a checkpoint."""
    for _, _report in zip(range(2), train(bench.state), strict=False):
        pass
    bench.saver.recent_returns.extend([3.0])
    bench.saver.save(bench.state)
    return bench


def test_a_run_without_a_checkpoint_begins_anew(bench):
    assert resume(bench.manager, bench.state) is None
    assert bench.state.iteration == 0


def test_everything_is_where_the_checkpoint_left_it(saved, small_config):
    other = new_training_state(small_config(seed=5))
    resumed = resume(saved.manager, other)
    assert (resumed.epoch, resumed.checkpoint, resumed.why_inexact) == (2, "model_0002.yaml", "")
    assert resumed.session["recent_returns"] == [3.0]
    assert (other.iteration, other.env_steps) == (2, 64)
    for name, value in saved.state.algorithm.policy().state_dict().items():
        assert torch.equal(other.algorithm.policy().state_dict()[name], value), name


@pytest.mark.fault("R7")
def test_a_changed_package_version_is_reported(saved, small_config, monkeypatch):
    now = resume_module.package_versions()
    monkeypatch.setattr(resume_module, "package_versions", lambda: {**now, "torch": "99.0", "rich": "99.0"})
    resumed = resume(saved.manager, new_training_state(small_config()))
    assert resumed.why_inexact == f"Since the checkpoint, torch {torch.__version__} is now 99.0."


def test_a_changed_engine_is_reported(make_bench, small_config):
    bench = make_bench(small_config(engine="torch"))
    next(train(bench.state))
    bench.saver.save(bench.state)
    assert resume(bench.manager, new_training_state(small_config(engine="torch"))).why_inexact == ""
    other = new_training_state(small_config(engine="torch"))
    other.algorithm.__class__ = Other
    assert resume(bench.manager, other).why_inexact == "It was trained with engine=torch and continues with other."


class Other(TorchPpo):
    engine = "other"


def test_a_policy_of_another_shape_is_refused_with_what_to_try(saved, small_config):
    other = new_training_state(small_config(policy={"graph": "mlp", "settings": {"hidden": [8]}}))
    with pytest.raises(DamagedFile, match="Checkpoint 2: its weights do not fit.*Was policy"):
        resume(saved.manager, other)


def test_a_damaged_newest_checkpoint_is_skipped(saved, small_config, caplog):
    next(train(saved.state))
    saved.saver.save(saved.state)
    (saved.directory.checkpoints / "trainer_state_0003.pt").write_bytes(b"not what it was")
    assert resume(saved.manager, new_training_state(small_config())).epoch == 2
    assert "Checkpoint 3 is damaged" in caplog.text


def test_checkpoints_that_are_all_damaged_do_not_mean_starting_from_zero(saved, small_config):
    (saved.directory.checkpoints / "trainer_state_0002.pt").write_bytes(b"not what it was")
    with pytest.raises(DamagedFile, match="can be continued from"):
        resume(saved.manager, new_training_state(small_config()))
