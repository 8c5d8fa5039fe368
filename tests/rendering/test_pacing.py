import random

import pytest

from palaestra.rendering.pacing import SAVED_SECONDS, Pacing


def drive(pacing, seconds, cost, fps=15.0, slots=range(8), step=0.002, update=(0.0, 0.0)):
    """A worker that steps, and draws when it may: what was drawn when, and how long drawing took in all."""
    now, due, drawn, spent, next_update = 0.0, 0.0, [], 0.0, update[0] or 1e9
    while now < seconds:
        now += step
        if now > next_update:
            now += update[1]
            next_update = now + update[0]
        if now < due:
            continue
        pacing.begin(now)
        began = now
        while (slot := pacing.next_slot(slots, began)) is not None:
            took = cost() if callable(cost) else cost
            pacing.drawn(slot, began, took, fps)
            drawn.append((now, slot))
            now += took
            spent += took
        due = min(pacing.due_at(slots, began), began + 0.1)
    return drawn, spent, now


@pytest.mark.parametrize("cost", [0.0001, 0.0025, 0.11, 0.5])
@pytest.mark.parametrize("budget", [0.015, 0.25])
def test_drawing_takes_no_more_than_its_share_whatever_a_picture_costs(cost, budget):
    drawn, spent, seconds = drive(Pacing(budget), 200, cost)
    assert drawn
    assert spent <= budget * seconds + cost


def test_the_share_also_holds_when_the_cost_changes_all_the_time():
    chance = random.Random(5)
    _, spent, seconds = drive(Pacing(0.02), 300, lambda: chance.choice([0.0005, 0.003, 0.2]))
    assert spent <= 0.02 * seconds + 0.2


def test_the_share_also_holds_with_long_updates_between_steps():
    _, spent, seconds = drive(Pacing(0.02), 100, 0.0025, update=(1.0, 3.0))
    assert spent <= 0.02 * seconds + 0.0025


def test_cheap_pictures_come_as_often_as_wanted_and_no_more():
    drawn, _, _ = drive(Pacing(0.5), 10, 0.0001, fps=10.0, slots=range(4))
    counts = [sum(slot == one for _, slot in drawn) for one in range(4)]
    assert all(90 <= count <= 101 for count in counts), counts


def test_no_tile_starves():
    drawn, _, _ = drive(Pacing(0.02), 60, 0.01, slots=range(8))
    counts = [sum(slot == one for _, slot in drawn) for one in range(8)]
    assert max(counts) - min(counts) <= 1
    assert [slot for _, slot in drawn[:16]] == [*range(8), *range(8)]


def test_what_was_not_spent_is_kept_for_a_second_at_most():
    pacing = Pacing(0.02)
    pacing.begin(0.0)
    pacing.begin(1000.0)
    pictures = 0
    while pacing.next_slot(range(1000), 1000.0) is not None:
        pacing.drawn(pictures, 1000.0, 0.001, 15.0)
        pictures += 1
    assert pictures == pytest.approx(0.02 * SAVED_SECONDS / 0.001, abs=1)


def test_the_first_picture_comes_at_once():
    pacing = Pacing(0.01)
    pacing.begin(50.0)
    assert pacing.next_slot([3], 50.0) == 3
