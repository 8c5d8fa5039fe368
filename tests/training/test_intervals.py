from palaestra.training.intervals import is_due


def test_every_multiple_fires_once_when_counting_by_one():
    fired = [after for after in range(1, 21) if is_due(5, after - 1, after)]
    assert fired == [5, 10, 15, 20]


def test_a_counter_that_jumps_over_a_multiple_still_fires():
    assert is_due(5, 3, 8)
    assert is_due(5, 4, 21)
    assert not is_due(5, 5, 9)


def test_interval_zero_never_fires():
    assert not any(is_due(0, before, before + 3) for before in range(20))
