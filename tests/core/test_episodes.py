from palaestra.core.episodes import EpisodeResult


def test_two_episodes_share_no_extras():
    first, second = (EpisodeResult(None, 1.0, 3, terminated=False) for _ in range(2))
    first.extras["x"] = 1.0
    assert second.extras == {}
