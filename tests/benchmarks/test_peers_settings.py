"""The comparison is only worth its name while all sides train the same."""

import inspect

import pytest
from peers import cleanrl, ours
from peers.settings import CLEANRL, HALFCHEETAH_TWO, MEMORY, SB3, SETTINGS

from palaestra.cli.arguments import parse_train_arguments
from palaestra.config.resolve import resolve_training
from palaestra.config.train import TrainConfig


def config_of(setting, engine="native"):
    words = parse_train_arguments(ours.words(setting, engine, seed=3))
    return resolve_training(words.recipe, words.overrides)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_our_command_sets_what_the_setting_says(setting):
    config = config_of(setting)
    ppo = config.ppo
    assert (config.env.id, config.total_steps, config.seed) == (setting.env_id, setting.total_steps, 3)
    assert (ppo.env_count, ppo.horizon, ppo.minibatch_size) == (
        setting.env_count,
        setting.horizon,
        setting.minibatch_size,
    )
    assert (ppo.update_epochs, ppo.gamma, ppo.gae_lambda) == (setting.epochs, setting.gamma, setting.gae_lambda)
    assert (ppo.learning_rate.start, ppo.learning_rate.kind == "linear") == (setting.learning_rate, setting.rate_falls)
    assert (ppo.clip.start, ppo.clip.kind == "linear") == (setting.clip, setting.clip_falls)
    assert (ppo.learning_rate.end, ppo.clip.end) == (0.0, 0.0)
    assert (ppo.clip_value_loss, ppo.max_grad_norm) == (setting.clip_value_loss, setting.max_grad_norm)
    assert (ppo.entropy_coefficient.start, ppo.entropy_coefficient.kind) == (setting.entropy_coefficient, "constant")
    assert ppo.value_coefficient == setting.value_coefficient
    assert config.torch_threads == setting.cores


def test_ours_is_a_run_as_a_user_has_it_with_every_sink_and_checkpoints():
    config, usual = config_of(CLEANRL), TrainConfig()
    assert config.loggers == usual.loggers
    assert config.loggers.console
    assert config.loggers.tensorboard
    assert config.checkpoints == usual.checkpoints
    assert config.policy == usual.policy


def test_engines_are_what_their_names_say():
    assert [config_of(CLEANRL, engine).engine for engine in ours.ENGINES] == ["native", "torch", "torch", "native"]
    assert config_of(CLEANRL, "compiled").policy.compile


def test_a_memory_is_of_the_size_requested_and_the_cheap_one_is_another_cell():
    settings = [config_of(MEMORY, engine).policy for engine in ("native", "cheap")]
    assert [one.graph for one in settings] == ["memory", "memory"]
    assert [one.settings["memory"] for one in settings] == [{"type": "lstm"}, {"type": "mingru"}]
    assert [(one.settings["hidden"], one.settings["size"]) for one in settings] == [([128], 128)] * 2
    assert not config_of(CLEANRL).policy.settings


def test_a_second_core_steps_bodies_too():
    assert config_of(HALFCHEETAH_TWO).env.workers == 1


def test_cleanrls_settings_are_our_defaults_which_are_cleanrls():
    ppo = TrainConfig().ppo
    assert config_of(CLEANRL).ppo == ppo


def test_cleanrls_script_receives_the_same():
    words = cleanrl.arguments(CLEANRL, seed=5)
    reports = dict(zip(words[0:-3:2], words[1:-3:2], strict=True))
    assert (reports["--num-envs"], reports["--num-steps"], reports["--num-minibatches"]) == ("4", "128", "4")
    assert (reports["--total-timesteps"], reports["--learning-rate"], reports["--seed"]) == ("500000", "0.00025", "5")
    assert words[-3:] == ["--anneal-lr", "--clip-vloss", "--no-cuda"]
    assert cleanrl.arguments(SB3, seed=5)[-3:] == ["--no-anneal-lr", "--no-clip-vloss", "--no-cuda"]


def test_stable_baselines3_with_its_own_settings_is_reported_nothing_that_it_would_not_do_anyway():
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    from peers import sb3

    defaults = inspect.signature(stable_baselines3.PPO).parameters
    reports = sb3.arguments(SB3)
    assert reports == {name: defaults[name].default for name in reports}
    assert sb3.arguments(CLEANRL)["learning_rate"](0.5) == pytest.approx(1.25e-4)
