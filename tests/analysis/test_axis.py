import pytest

from palaestra.analysis.axis import Axis, make_axis, round_step, shown


def test_places_lie_between_start_and_end_also_upside_down():
    assert Axis(0, 10, 100, 200).place(2.5) == 125
    assert Axis(0, 10, 200, 100).place(2.5) == 175


@pytest.mark.parametrize(
    ("rough", "step"), [(1, 1), (1.1, 2), (3, 5), (7, 10), (0.03, 0.05), (100, 100), (1234, 2000), (1e-9, 1e-9)]
)
def test_steps_are_round(rough, step):
    assert round_step(rough) == pytest.approx(step)


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-3.7, 512.4), (1e6, 1.00001e6), (-2e-7, 3e-7), (0, 1)])
def test_ticks_lie_within_and_are_a_handful(low, high):
    ticks = Axis(low, high, 0, 1).ticks()
    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-9 * abs(high) <= tick <= high + 1e-9 * abs(high) for tick in ticks)


@pytest.mark.parametrize("values", [[5.0], [0.0, 0.0], [-3.0, -3.0], [1e12], [1.0, 2.0]])
def test_all_values_have_a_place_also_when_they_are_all_alike(values):
    axis = make_axis(values, 0, 100)
    assert all(0 < axis.place(value) < 100 for value in values)
    assert axis.ticks()


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (-1500, "-1500"), (20_000, "20k"), (1_500_000, "1.5M"), (3e9, "3G"), (123.456, "123.5")],
)
def test_numbers_are_written_short(value, text):
    assert shown(value) == text
