"""SplitMix64 against the numbers that everybody's SplitMix64 gives, and `below` against its definition."""

from collections import Counter

import pytest

from palaestra.apps.arena.random import Dice


def test_the_first_numbers_are_those_of_the_published_generator():
    dice = Dice(1234567)
    assert [dice.next() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_a_seed_is_its_lowest_64_bits():
    assert Dice(2**64 + 5).next() == Dice(5).next()
    assert Dice(-1).next() == Dice(2**64 - 1).next()


@pytest.mark.parametrize("count", [1, 2, 6, 1000, 2**31])
def test_below_is_the_upper_half_scaled(count):
    numbers, dice = Dice(7), Dice(7)
    for _ in range(50):
        expected = numbers.next() // 2**32 * count // 2**32
        assert dice.below(count) == expected < count


def test_the_six_faces_come_up_equally_often():
    dice = Dice(0)
    faces = Counter(dice.below(6) for _ in range(6000))
    assert sorted(faces) == [0, 1, 2, 3, 4, 5]
    # chi-square with 5 degrees of freedom: above 20.5 in one of a thousand
    assert sum((count - 1000) ** 2 / 1000 for count in faces.values()) < 20.5


def test_dice_go_on_from_their_state():
    dice = Dice(3)
    dice.next()
    assert Dice(dice.state).next() == dice.next()
