import pytest

from palaestra.algorithms.base import Progress


@pytest.mark.parametrize(("interval", "expected"), [(1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5])])
def test_the_actor_is_due_by_updates(make, interval, expected):
    td3 = make("td3", settings={"policy_interval": interval})
    due = []
    for count in range(7):
        td3.update_count = count
        due += [count] if td3.is_actor_due() else []
    assert due == expected


def test_the_learning_rate_follows_its_schedule(make):
    td3 = make("td3", settings={"learning_rate": {"start": 4e-3, "end": 0.0, "kind": "linear"}})
    assert td3.learning_rate(Progress(0, 500, 1000)) == pytest.approx(2e-3)
