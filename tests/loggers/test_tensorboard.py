from __future__ import annotations

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as PluginAccumulator

from palaestra.core.episodes import EpisodeColumns
from palaestra.core.metrics_logger import EpisodeSummary, Interval, Sample, ValueRange
from palaestra.loggers.event_file import scalars_event
from palaestra.loggers.samples import sample_of
from palaestra.loggers.tensorboard import MANY_POINTS, WAITING_SAMPLES, TensorBoardLogger, markdown_table


def curve(directory, tag):
    reader = EventAccumulator(str(directory), size_guidance={"scalars": 0}).Reload()
    return [(event.step, event.value) for event in reader.Scalars(tag)]


def write_all(directory, samples, clock, rewind=None):
    logger = TensorBoardLogger(directory, {"seed": 1}, clock)
    if rewind is not None:
        logger.rewind(rewind)
    for sample in samples:
        logger.write(sample)
    logger.close()


def test_every_episode_is_a_point_at_its_own_step_as_in_cleanrl(tmp_path, samples, clock):
    write_all(tmp_path, samples, clock)
    points = curve(tmp_path, "charts/episodic_return")
    assert points == [(episode.env_step, episode.total_reward) for sample in samples for episode in sample.episodes]


@pytest.mark.parametrize("count", [1, MANY_POINTS // 2 - 1, MANY_POINTS // 2, 200])
def test_episodes_in_columns_are_the_same_file_as_episodes_one_by_one(tmp_path, clock, count):
    numbers = range(count)
    columns = EpisodeColumns(numbers, [0.1 * one for one in numbers], [one + 1 for one in numbers], [True] * count, 512)
    for name, episodes in (("columns", columns), ("objects", tuple(columns))):
        write_all(tmp_path / name, [Sample(512, {"losses/entropy": 1.0}, episodes=episodes, at=5.0)] * 2, clock)
    one, other = ((tmp_path / name).iterdir() for name in ("columns", "objects"))
    assert next(one).read_bytes() == next(other).read_bytes()


@pytest.mark.parametrize("names", [2, 100])  # so many that an event is longer than is looked up at once
def test_many_samples_at_once_are_the_events_of_each_by_itself(tmp_path, clock, names):
    metrics = [{f"losses/{name}": 0.1 * step * name for name in range(names)} for step in range(100, 160)]
    write_all(tmp_path, [Sample(100 + k, own, at=7.0 + k) for k, own in enumerate(metrics)], clock)
    (path,) = tmp_path.iterdir()
    _version, _settings, *events = RawEventFileLoader(str(path)).Load()
    assert events == [scalars_event(7.0 + k, 100 + k, own) for k, own in enumerate(metrics)]


def test_an_interval_is_a_point_of_its_mean_and_its_extremes_have_tags_of_their_own(tmp_path, clock):
    ranges = {"losses/entropy": ValueRange(0.5, 8.0, 4), "charts/episodic_return": ValueRange(2.0, 3.0, 4)}
    metrics = {"losses/entropy": 1.5, "charts/episodic_return": 2.5}
    summary = EpisodeSummary(9, 9, 2.5, -1.0, 7.0, 20.0, 10, 30)
    interval = Interval(1024, 4, ranges)
    write_all(tmp_path, [Sample(2048, metrics, at=5.0, interval=interval, episode_summary=summary)], clock)
    assert curve(tmp_path, "losses/entropy") == [(2048, 1.5)]
    assert [curve(tmp_path, f"{side}/losses/entropy") for side in ("min", "max")] == [[(2048, 0.5)], [(2048, 8.0)]]
    assert curve(tmp_path, "charts/episodic_return") == [(2048, 2.5)]
    assert curve(tmp_path, "min/charts/episodic_return") == [(2048, -1.0)]  # of the episodes, not of their means
    assert curve(tmp_path, "max/charts/episodic_length") == [(2048, 30.0)]


def test_samples_without_a_number_leave_nothing(tmp_path, clock):
    write_all(tmp_path, [Sample(512, {})] * 20, clock)
    (path,) = tmp_path.iterdir()
    assert len(list(RawEventFileLoader(str(path)).Load())) == 2  # version and settings


def test_samples_wait_for_each_other_but_not_for_ever(tmp_path, samples, clock):
    logger = TensorBoardLogger(tmp_path, {}, clock)
    (path,) = tmp_path.iterdir()
    before = path.stat().st_size
    wide = Sample(512, {f"losses/{name}": 1.0 for name in range(40)})
    for _ in range(WAITING_SAMPLES - 1):
        logger.write(wide)
    assert path.stat().st_size == before
    logger.write(wide)
    assert path.stat().st_size > before + 40 * 10 * WAITING_SAMPLES
    logger.close()


def test_other_metrics_and_timings_stand_at_the_step_of_their_sample(tmp_path, samples, clock):
    write_all(tmp_path, samples, clock)
    assert curve(tmp_path, "losses/value_loss") == [(sample.step, 12.5) for sample in samples]
    assert curve(tmp_path, "charts/SPS") == [(sample.step, 1000.0) for sample in samples]


def test_no_point_is_made_up_for_an_iteration_without_episodes(tmp_path, clock, report_maker):
    write_all(tmp_path, [sample_of(report_maker(1), 1.0, 0.0)], clock)
    reader = EventAccumulator(str(tmp_path)).Reload()
    assert "charts/episodic_return" not in reader.Tags()["scalars"]
    assert "charts/learning_rate" in reader.Tags()["scalars"]


@pytest.mark.parametrize("kept", [0, 1, 4, 9])
def test_a_resumed_run_has_no_doubled_and_no_missing_points(tmp_path, samples, clock, kept):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    write_all(whole, samples, clock)
    write_all(resumed, samples[: kept + 1], clock)  # one iteration further than its checkpoint
    write_all(resumed, samples[kept:], clock, rewind=512 * kept)
    for tag in ("charts/episodic_return", "charts/episodic_length", "losses/policy_loss", "charts/SPS"):
        assert curve(resumed, tag) == curve(whole, tag)


def test_an_evaluation_that_comes_late_stands_at_its_step_and_takes_nothing_away(tmp_path, samples, clock):
    late = Sample(1024, {"eval/episodic_return": 3.0})
    write_all(tmp_path, [*samples[:6], late, *samples[6:]], clock)
    assert curve(tmp_path, "eval/episodic_return") == [(1024, 3.0)]
    assert [step for step, _ in curve(tmp_path, "losses/entropy")] == [sample.step for sample in samples]


@pytest.mark.fault("G14")
def test_a_session_after_the_clock_went_back_is_still_read_last(tmp_path, samples, clock):
    write_all(tmp_path, samples[:6], clock)
    clock.seconds = -1e6
    write_all(tmp_path, samples[4:], clock, rewind=512 * 4)
    assert [step for step, _ in curve(tmp_path, "losses/entropy")] == [sample.step for sample in samples]


@pytest.mark.fault("S5")
def test_a_record_torn_by_a_kill_does_not_hide_the_next_session(tmp_path, samples, clock):
    write_all(tmp_path, samples[:6], clock)
    (torn,) = tmp_path.iterdir()
    torn.write_bytes(torn.read_bytes()[:-7])
    write_all(tmp_path, samples[4:], clock, rewind=512 * 4)
    assert [step for step, _ in curve(tmp_path, "losses/entropy")] == [sample.step for sample in samples]


def test_hyperparameters_are_a_text_page_written_once(tmp_path, samples, clock):
    write_all(tmp_path, samples[:2], clock)
    write_all(tmp_path, samples[2:], clock, rewind=1024)
    reader = PluginAccumulator(str(tmp_path)).Reload()
    (event,) = reader.Tensors("hyperparameters/text_summary")
    assert event.tensor_proto.string_val[0] == b"|param|value|\n|-|-|\n|seed|1|"
    assert reader.SummaryMetadata("hyperparameters/text_summary").plugin_data.plugin_name == "text"


def test_nested_settings_are_shown_with_their_full_key():
    assert markdown_table({"ppo": {"gamma": 0.99}}).splitlines()[-1] == "|ppo.gamma|0.99|"


def test_what_was_flushed_can_be_read_while_the_run_goes_on(tmp_path, samples, clock):
    logger = TensorBoardLogger(tmp_path, {}, clock)
    logger.write(samples[0])
    logger.flush()
    assert len(curve(tmp_path, "losses/entropy")) == 1
    clock.seconds += 6.0
    logger.write(samples[1])
    assert len(curve(tmp_path, "losses/entropy")) == 2
    logger.close()


@pytest.mark.fault("S4")
def test_a_directory_that_cannot_be_written_is_refused_when_the_sink_is_made(tmp_path, clock):
    (tmp_path / "tensorboard").write_text("a file where the directory should be")
    with pytest.raises(OSError, match="tensorboard"):
        TensorBoardLogger(tmp_path / "tensorboard", {}, clock)
