from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest

from palaestra.config.loggers import LoggersConfig, WandbConfig
from palaestra.core import plugins
from palaestra.core.errors import NotFound
from palaestra.loggers.build import build_loggers
from palaestra.loggers.downsampling import SINGLE_ITERATIONS
from palaestra.loggers.samples import sample_of
from palaestra.loggers.wandb import logger as wandb_logger
from palaestra.runs.metrics.reader import MetricsReader


class Recorder:
    """A third-party logger."""

    name = "recorder"
    made: ClassVar[list[Recorder]] = []

    def __init__(self, run, settings):
        self.run, self.settings, self.steps = run, settings, []
        Recorder.made.append(self)

    def write(self, sample):
        self.steps.append(sample.step)

    def flush(self):
        pass

    def close(self):
        pass


@pytest.fixture
def dropped() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def build(run, header, clock, dropped):
    def make(config, **further):
        report = lambda name, error: dropped.append((name, str(error)))  # noqa: E731
        return build_loggers(config, run, header, {"seed": 1}, report, clock, **further)

    return make


def test_the_metrics_store_is_there_whatever_is_switched_off(build, run, samples):
    with build(LoggersConfig(console=False, tensorboard=False)) as loggers:
        assert loggers.names == ["metrics"]
        loggers.write(samples[0])
    assert run.metrics_file.exists()
    assert not list(run.tensorboard.iterdir())


@pytest.fixture
def recorder(monkeypatch):
    """A plugin that keeps what it is told."""
    Recorder.made.clear()
    monkeypatch.setattr(plugins, "load", lambda _group, _name: Recorder)
    return Recorder.made


@pytest.mark.parametrize("downsample", [True, False])
def test_a_long_training_has_fewer_rows_unless_every_value_is_requested(build, run, report_maker, recorder, downsample):
    """A third-party logger gets every sample either way."""
    iterations = [SINGLE_ITERATIONS, *range(SINGLE_ITERATIONS + 1, SINGLE_ITERATIONS + 9)]
    config = LoggersConfig(console=False, tensorboard=False, downsample=downsample, plugins=("recorder",))
    with build(config) as loggers:
        loggers.write(*(sample_of(report_maker(iteration), 1000.0, at=0.0) for iteration in iterations))
    assert [step // 512 for step in recorder[0].steps] == iterations
    with MetricsReader(run.metrics_file) as reader:
        written = [point.step // 512 for point in reader.series("losses/entropy")]
    assert written == ([iterations[0], *iterations[2::2]] if downsample else iterations)


def test_by_default_there_are_store_console_and_tensorboard(build, run, samples, capsys):
    with build(LoggersConfig()) as loggers:
        assert loggers.names == ["metrics", "console", "tensorboard"]
        loggers.write(samples[0])
    assert len(list(run.tensorboard.iterdir())) == 1
    assert "step 512" in capsys.readouterr().err
    assert not run.metrics_csv_file.exists()


def test_csv_is_written_where_the_run_keeps_it(build, run, samples):
    with build(LoggersConfig(console=False, tensorboard=False, csv=True)) as loggers:
        loggers.write(samples[0])
    assert len(run.metrics_csv_file.read_text().splitlines()) == 2


def test_wandb_that_is_not_installed_is_one_line_and_not_an_error(build, dropped, samples, monkeypatch):
    monkeypatch.setattr(wandb_logger, "find_spec", lambda name: None)
    config = LoggersConfig(console=False, tensorboard=False, wandb=WandbConfig(enabled=True))
    with build(config) as loggers:
        loggers.write(samples[0])
        assert loggers.names == ["metrics"]
    ((name, message),) = dropped
    assert name == "wandb"
    assert "pip install 'palaestra[wandb]'" in message


def test_a_tensorboard_directory_that_cannot_be_written_is_one_line_and_not_an_error(build, run, dropped, samples):
    run.tensorboard.rmdir()
    run.tensorboard.write_text("in the way")
    with build(LoggersConfig(console=False)) as loggers:
        loggers.write(samples[0])
    assert [name for name, _ in dropped] == ["tensorboard"]


def test_a_third_parties_sink_is_used_by_name(build, run, samples, monkeypatch):
    point = EntryPoint("recorder", f"{__name__}:Recorder", "palaestra.loggers")
    monkeypatch.setattr(EntryPoint, "load", lambda self: Recorder)
    monkeypatch.setattr(plugins, "_group", lambda kind: {"recorder": point})
    with build(LoggersConfig(console=False, tensorboard=False, plugins=("recorder",))) as loggers:
        loggers.write(samples[1])
    recorder = Recorder.made[-1]
    assert (recorder.run, recorder.settings, recorder.steps) == (run, {"seed": 1}, [1024])


def test_a_name_that_nobody_knows_is_refused_before_the_run_begins(build, run):
    with pytest.raises(NotFound, match="No logger named 'no-such-logger'"):
        build(LoggersConfig(plugins=("no-such-logger",)))
    assert not run.metrics_file.exists()
