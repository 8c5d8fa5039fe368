from __future__ import annotations

from palaestra.core.episodes import EpisodeColumns, EpisodeResult, episode_lengths, episode_returns, to_columns


def test_two_episodes_share_no_extras():
    first, second = (EpisodeResult(None, 1.0, 3, terminated=False) for _ in range(2))
    first.extras["x"] = 1.0
    assert second.extras == {}


COLUMNS = EpisodeColumns((3, 0), (1.5, 2.0), (7, 9), (True, False), env_step=64)
EPISODES = (
    EpisodeResult(None, 1.5, 7, terminated=True, env_index=3, env_step=64),
    EpisodeResult(None, 2.0, 9, terminated=False, env_index=0, env_step=64),
)


def test_they_are_the_episodes_one_by_one():
    assert tuple(COLUMNS) == EPISODES
    assert (len(COLUMNS), COLUMNS[-1], COLUMNS[:1]) == (2, EPISODES[1], EPISODES[:1])


def test_they_equal_whatever_has_the_same_episodes_and_nothing_else():
    assert COLUMNS == EPISODES
    assert EPISODES == COLUMNS
    assert EPISODES[:1] != COLUMNS
    assert EpisodeColumns((3, 0), (1.5, 2.0), (7, 9), (True, True), env_step=64) != COLUMNS
    assert COLUMNS != 7


def test_none_at_all_are_false():
    assert not EpisodeColumns((), (), (), ())
    assert COLUMNS


def test_numbering_changes_what_it_says_and_no_more():
    moved = COLUMNS.numbered(10, 128)
    assert [(one.env_index, one.env_step, one.total_reward) for one in moved] == [(13, 128, 1.5), (10, 128, 2.0)]
    assert COLUMNS.numbered(0, 64) == EPISODES


def test_plain_episodes_become_columns_and_others_do_not():
    assert to_columns(EPISODES).numbered(0, 64) == EPISODES
    assert to_columns(COLUMNS) is COLUMNS
    assert to_columns([*EPISODES, EpisodeResult(7, 1.0, 2, terminated=True)]) is None
    assert to_columns([EpisodeResult(None, 1.0, 2, terminated=True, extras={"heart": 1.0})]) is None
    assert len(to_columns([])) == 0


def test_returns_and_lengths_are_the_same_of_columns_and_of_objects():
    assert list(episode_returns(COLUMNS)) == list(episode_returns(EPISODES)) == [1.5, 2.0]
    assert list(episode_lengths(COLUMNS)) == list(episode_lengths(EPISODES)) == [7, 9]
