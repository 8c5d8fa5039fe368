import json
import math

import pytest

from palaestra.core.episodes import EpisodeColumns, EpisodeResult
from palaestra.core.metrics_logger import EpisodeSummary, Interval, Sample, ValueRange
from palaestra.loggers.wandb import batch
from palaestra.loggers.wandb.batch import pack_messages, unpack_message


def through_the_wire(samples):
    """What W&B's session is told in the end."""
    return [
        reports for message in pack_messages(samples) for reports in unpack_message(json.loads(json.dumps(message)))
    ]


def columns(step, *returns):
    count = len(returns)
    return EpisodeColumns(range(count), returns, [5] * count, [True] * count, step)


def values(step, **metrics):
    return {"kind": "sample", "step": step, "values": metrics}


def test_every_number_arrives_as_it_was_under_its_name_and_step():
    samples = [
        Sample(4, {"loss": 0.1, "kl": 1e-300}, {"rate": 7.0}),
        Sample(8, {"loss": -0.0, "kl": 12345678.9}, {"rate": math.inf}),
    ]
    assert through_the_wire(samples) == [
        values(4, loss=0.1, kl=1e-300, rate=7.0),
        values(8, loss=-0.0, kl=12345678.9, rate=math.inf),
    ]


def test_an_interval_arrives_with_its_extremes_and_its_episodes_as_one_row():
    interval = Interval(5, 4, {"loss": ValueRange(0.5, 2.0, 4), "kl": ValueRange(math.nan, math.nan, 0, 4)})
    summary = EpisodeSummary(7, 7, 12.5, 1.0, 20.0, 5.0, 5, 5)
    episodes, numbers = through_the_wire([Sample(8, {"loss": 1.0}, interval=interval, episode_summary=summary)])
    assert episodes == {"kind": "episode_summary", "step": 8, "count": 7, "mean": 12.5}
    extremes = {"min/loss": 0.5, "max/loss": 2.0}
    returns = {"charts/episodic_return": (1.0, 20.0), "charts/episodic_length": (5, 5)}
    for name, (low, high) in returns.items():
        extremes |= {f"min/{name}": low, f"max/{name}": high}
    assert numbers == values(8, loss=1.0, **extremes)


def test_what_is_not_a_number_arrives_as_that():
    ((reports,),) = [through_the_wire([Sample(1, {"loss": math.nan})])]
    assert math.isnan(reports["values"]["loss"])


def test_samples_of_other_names_between_them_keep_their_place():
    samples = [Sample(1, {"loss": 1.0}), Sample(1, {"eval": 2.0}), Sample(2, {"loss": 3.0})]
    assert through_the_wire(samples) == [values(1, loss=1.0), values(1, eval=2.0), values(2, loss=3.0)]


def test_episodes_come_before_the_scalars_as_rows_in_their_order():
    samples = [Sample(10, {"loss": 1.0}, episodes=columns(10, 20.5, 30.0)), Sample(20, {}, episodes=columns(20, 40.0))]
    episodes, *others = through_the_wire(samples)
    rows = [[10, 20.5, None, None], [10, 30.0, None, None], [20, 40.0, None, None]]
    assert episodes == {"kind": "episodes", "rows": rows}
    assert all(isinstance(row[0], int) for row in episodes["rows"])
    assert others == [values(10, loss=1.0), values(20)]


def test_episodes_with_more_to_say_keep_it():
    reported = EpisodeResult(
        seed=3, total_reward=-7.0, length=7, terminated=True, env_step=9, extras={"residual": 0, "rank": 23}
    )
    plain = EpisodeResult(seed=None, total_reward=1.0, length=7, terminated=True, env_step=9)
    episodes, _ = through_the_wire([Sample(9, {}, episodes=(reported, plain))])
    assert episodes["rows"] == [[9, -7.0, 0, 23], [9, 1.0, None, None]]


@pytest.mark.parametrize(("limit", "count"), [("SAMPLES_PER_MESSAGE", 3), ("EPISODES_PER_MESSAGE", 3)])
def test_many_are_cut_into_messages_and_none_is_lost(monkeypatch, limit, count):
    monkeypatch.setattr(batch, limit, count)
    samples = [Sample(step, {"loss": float(step)}, episodes=columns(step, float(step))) for step in range(1, 11)]
    kind = "samples" if limit == "SAMPLES_PER_MESSAGE" else "returns"
    assert sum(message["kind"] == kind for message in pack_messages(samples)) == 4
    reports = through_the_wire(samples)
    assert [one["values"]["loss"] for one in reports if one["kind"] == "sample"] == list(range(1, 11))
    assert [row[1] for one in reports if one["kind"] == "episodes" for row in one["rows"]] == list(range(1, 11))


def test_nothing_written_is_no_message():
    assert list(pack_messages([])) == []


def test_a_full_message_stays_far_below_what_a_socket_takes():
    names = {f"losses/a_name_of_some_length_{number}": 0.1 for number in range(24)}
    samples = [Sample(step, names, episodes=columns(step, *range(20))) for step in range(600)]
    assert max(len(json.dumps(message)) for message in pack_messages(samples)) < 100_000
