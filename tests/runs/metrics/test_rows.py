import re
import sqlite3

import pytest

from palaestra.core.episodes import EpisodeColumns, EpisodeResult
from palaestra.core.metrics_logger import Sample
from palaestra.runs.metrics.rows import POINTS_PER_STATEMENT, episode_rows, point_statements


def sample(step, metrics=None, timings=None, episodes=()):
    return Sample(step=step, at=1.0, metrics=metrics or {}, timings=timings or {}, episodes=episodes)


def id_of(name, reproducible):
    return int(name) + (0 if reproducible else 1000)


def written(*samples):
    """What SQLite has of them, and how often it was asked."""
    statements = [(text, list(rows)) for text, rows in point_statements(enumerate(samples, start=1), id_of)]
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE points (step, name, value, sample, PRIMARY KEY (step, name))")
        for text, rows in statements:
            connection.executemany(text, rows)
        found = connection.execute("SELECT * FROM points ORDER BY step, name").fetchall()
    connection.close()
    return found, [len(rows) for _, rows in statements]


def test_points_have_step_name_value_and_sample():
    found, _ = written(sample(64, {"1": 0.5, "2": 3}, {"7": 0.25}))
    assert found == [(64, 1, 0.5, 1), (64, 2, 3.0, 1), (64, 1007, 0.25, 1)]


def test_samples_with_the_same_names_share_a_statement():
    few, others, many = {"1": 1.0}, {"2": 1.0}, {"1": 1.0, "2": 2.0}
    found, rows = written(*(sample(step, metrics) for step, metrics in enumerate([few, few, many, few, others])))
    assert rows == [2, 1, 1, 1]
    assert [point[1] for point in found] == [1, 1, 1, 2, 1, 2]
    assert [point[3] for point in found] == [1, 2, 3, 3, 4, 5]


@pytest.mark.parametrize(
    "count", [0, 1, POINTS_PER_STATEMENT - 1, POINTS_PER_STATEMENT, POINTS_PER_STATEMENT + 1, 3 * POINTS_PER_STATEMENT]
)
def test_no_statement_has_more_numbers_than_every_sqlite_takes(count):
    wide = sample(64, {str(number): float(number) for number in range(count)})
    found, _ = written(wide)
    assert found == [(64, number, float(number), 1) for number in range(count)]
    texts = [text for text, _ in point_statements([(1, wide)], id_of)]
    assert all(int(number) < 999 for text in texts for number in re.findall(r"\?(\d+)", text))


def test_what_comes_later_replaces_what_was_said_of_the_same_step():
    found, _ = written(sample(64, {"1": 1.0}), sample(64, {"1": 2.0}))
    assert found == [(64, 1, 2.0, 2)]


def test_episodes_side_by_side_give_the_rows_of_episodes_one_by_one():
    columns = EpisodeColumns([0, 3], [1.5, 2.5], [10, 20], [True, False], env_step=64)
    assert list(episode_rows(sample(64, episodes=columns))) == list(episode_rows(sample(64, episodes=tuple(columns))))


def test_an_episode_has_its_seed_and_its_further_figures_in_one_order():
    one = EpisodeResult(9, 1.5, 10, terminated=True, env_index=2, env_step=60, extras={"b": float("nan"), "a": 1})
    assert list(episode_rows(sample(64, episodes=[one]))) == [(64, 60, 2, 9, 1.5, 10, True, '{"a": 1, "b": "NaN"}')]
