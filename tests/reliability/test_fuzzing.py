"""The fuzzer sees what it is for, draws the same again, and leaves the process as it was."""

import json
import os
import random

import pytest

from palaestra.core.errors import DamagedFile
from tools.reliability.fuzzing import DAMAGES, LONGEST_INPUT, WORDS, Parser, drawn_inputs, fuzz

EXAMPLES = (b'{"rank": 0, "names": ["a", "b"]}', b'{"rank": 1.5, "note": ""}')


def careful(data):
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedFile("no JSON") from error


def test_a_parser_that_reads_or_refuses_has_no_crashes():
    found = fuzz(Parser("json", careful, EXAMPLES), 500, seed=1)
    assert (found.inputs, found.crash_count, found.forbidden) == (500, 0, [])
    assert found.accepted + found.refused == 500
    assert min(found.accepted, found.refused) > 30, "all alike would show little"


def test_an_error_that_a_careless_parser_lets_through_is_found_with_its_input():
    def careless(data):
        return int(careful(data)["rank"])  # infinity is no whole number, and a list has no rank

    found = fuzz(Parser("careless", careless, EXAMPLES), 3000, seed=1)
    assert found.crash_count > 0
    assert any(crash.startswith("OverflowError") and "Infinity" in crash for crash in all_crashes(careless))
    assert " from b'" in found.crashes[0]


def all_crashes(read):
    return [crash for seed in range(20) for crash in fuzz(Parser("careless", read, EXAMPLES), 500, seed).crashes]


def test_what_is_started_while_reading_is_received_and_only_then():
    def hostile(data):
        if b"9" in data:
            os.system("true")

    found = fuzz(Parser("hostile", hostile, (b"1 2 3",)), 300, seed=1)
    assert found.forbidden
    assert found.forbidden[0].startswith("os.system(")
    received = len(found.forbidden)
    os.system("true")
    assert len(found.forbidden) == received


def test_an_assertion_of_a_library_below_is_a_crash_too():
    def wrong(data):
        assert data in EXAMPLES

    assert fuzz(Parser("wrong", wrong, EXAMPLES), 50, seed=1).crash_count > 40


def test_the_same_seed_draws_the_same_and_another_others():
    first, again, other = (list(drawn_inputs(EXAMPLES, random.Random(seed), 50)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert all(len(data) <= LONGEST_INPUT for data in first)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("data", [b"", b"x", EXAMPLES[0]])
def test_every_damage_can_be_done_to_anything(damage, data):
    for seed in range(50):
        damage(bytearray(data), random.Random(seed), EXAMPLES)


def test_the_words_are_all_different_and_none_is_empty():
    assert len(set(WORDS)) == len(WORDS)
    assert all(WORDS)
