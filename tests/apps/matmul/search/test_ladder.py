from dataclasses import replace

import pytest

from palaestra.apps.matmul.schemes import bit_masks
from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import Format, parse_format, schoolbook
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search import ladder
from palaestra.apps.matmul.search.flip_search import Rules
from palaestra.apps.matmul.search.flip_walk import IS_COMPILED
from palaestra.apps.matmul.search.ladder import (
    advance_climb,
    begin_climb,
    best_so_far,
    decode_climb,
    encode_climb,
    extended,
    proved_over,
    rungs_to,
)
from palaestra.core.errors import DamagedFile

RULES = Rules(plus_period=2000, patience=200_000, round_flips=20_000)
SMALL = (Format(2, 2, 2), Format(2, 2, 3), Format(2, 3, 3))


def climbed(climb, rules, rung_flips=400_000, rounds=200):
    for _ in range(rounds):
        if climb.best_rank <= rules.target:
            break
        climb = advance_climb(climb, rules, rung_flips)
    return climb


@pytest.mark.parametrize(
    ("wanted", "rungs"),
    [
        ("3x3x3", "3x3x3"),
        ("2x3x5", "2x3x4 2x3x5"),
        ("4x4x4", "3x3x3 3x3x4 3x4x4 4x4x4"),
        ("5x5x5", "3x3x3 3x3x4 3x4x4 4x4x4 4x4x5 4x5x5 5x5x5"),
        ("3x4x5", "3x3x3 3x3x4 3x4x4 3x4x5"),
    ],
)
def test_the_ladder_begins_where_a_walk_arrives_alone(wanted, rungs):
    assert [str(rung) for rung in rungs_to(parse_format(wanted))] == rungs.split()


def test_an_extended_scheme_multiplies_and_costs_the_strip(strassen_bits):
    for wanted, more in ((Format(3, 2, 2), 4), (Format(2, 3, 2), 4), (Format(2, 2, 4), 8)):
        masks = extended(to_masks(strassen_bits), Format(2, 2, 2), wanted)
        assert verify(from_masks(masks, wanted)).rank == 7 + more


def test_a_climb_arrives_at_the_best_known_rank_by_way_of_smaller_ones():
    climb = climbed(begin_climb(SMALL, Field.GF2, 1, 1), replace(RULES, target=15))
    assert (climb.rung, climb.best_rank) == (2, 15)
    assert verify(from_masks(climb.best, Format(2, 3, 3))).rank == 15


def test_a_climb_that_was_put_away_goes_on_step_for_step():
    through = half = begin_climb(SMALL, Field.GF2, 3, 2)
    for count in range(8):
        through = advance_climb(through, RULES, 50_000)
        if count < 4:
            half = advance_climb(half, RULES, 50_000)
    back = decode_climb(encode_climb(half))
    assert back == half
    for _ in range(4):
        back = advance_climb(back, RULES, 50_000)
    assert back == through
    assert through.rung or through.ascents  # it was no idle comparison


def test_after_the_last_rung_it_begins_again_with_other_dice_and_keeps_the_best():
    climb = begin_climb(SMALL[:2], Field.GF2, 1, 1)
    first = climb.search.walkers[0].dice
    best = climb.best_rank
    for _ in range(40):
        climb = advance_climb(climb, RULES, 20_000)
        assert climb.best_rank <= best
        best = climb.best_rank
        if climb.ascents:
            break
    assert climb.ascents == 1
    assert climb.search.walkers[0].dice != first


@pytest.mark.parametrize("rungs", [SMALL, SMALL[1:]])
def test_later_ascents_begin_on_any_rung_with_what_others_left_there(rungs):
    climb = begin_climb(rungs, Field.GF2, 1, 1)
    begun = {}
    for _ in range(400):
        before, climb = climb.ascents, advance_climb(climb, replace(RULES, round_flips=2_000), 4_000)
        if climb.ascents > before:
            assert verify(from_masks(climb.search.start, climb.search.format))
            begun.setdefault(climb.rung, set()).add(len(climb.search.start))
    assert set(begun) == set(range(len(rungs)))
    for rung in range(1, len(rungs)):
        assert max(begun[rung]) < rungs[rung].schoolbook_rank
    best = [min(map(len, shelf)) for shelf in climb.shelves]
    assert best[-2:-1] == [11]
    assert all(len(shelf) <= ladder.SHELF for shelf in climb.shelves)


def test_a_rung_goes_on_as_long_as_it_falls():
    """Counted are flips since the last fall, not those since the beginning."""
    climb = begin_climb((Format(3, 3, 3), Format(3, 3, 4)), Field.GF2, 1, 1)
    fallen = []
    while climb.rung == 0:
        ranks, climb = climb.search.best_rank, advance_climb(climb, replace(RULES, round_flips=500), 1_500)
        fallen.append(climb.rung == 0 and climb.search.best_rank < ranks)
    assert len(fallen) > 4
    assert not any(fallen[-3:])


def test_a_climb_of_the_version_before_shelves_goes_on():
    data = encode_climb(begin_climb(SMALL, Field.GF2, 1, 1))
    old = {key: value for key, value in data.items() if key not in {"fallen_at", "shelves"}}
    assert decode_climb(old) == begin_climb(SMALL, Field.GF2, 1, 1)


def test_for_whole_numbers_only_what_lifts_is_extended_or_kept(monkeypatch):
    climb = climbed(begin_climb(SMALL[:2], Field.ZT, 1, 1), replace(RULES, target=11))
    assert proved_over(Field.ZT, climb.best, climb.format).field is Field.ZT
    monkeypatch.setattr(ladder, "lift", lambda proved, ends: None)
    monkeypatch.setattr(ladder, "_LIFTED", {})
    climb = begin_climb(SMALL[:2], Field.Z, 1, 1)
    for _ in range(5):
        climb = advance_climb(climb, RULES, 10**9)
    assert climb.rung == 0  # nothing lifts: nothing is extended
    assert climb.search.walkers[0].starts > 0
    assert climb.best_rank == 12


@pytest.mark.parametrize("field", [Field.GF2, Field.ZT])
def test_what_was_found_on_a_lower_rung_counts_when_time_ends(field):
    climb = begin_climb(SMALL, field, 1, 1)
    while climb.search.best_rank > 7 and climb.rung == 0:
        climb = advance_climb(climb, replace(RULES, round_flips=50), 10**9)
    climb = replace(climb, search=replace(climb.search, pool=(climb.search.best,)))
    best = best_so_far(climb)
    assert climb.best_rank == 18
    assert proved_over(field, best, climb.format).rank < 18
    assert len(best) == climb.search.best_rank + sum(6 if k == 1 else 4 for k in range(climb.rung, 2))


def test_a_start_of_ones_own_is_taken(strassen_bits):
    climb = begin_climb((Format(2, 2, 2),), Field.GF2, 1, 1, to_masks(strassen_bits))
    assert climb.best_rank == 7


@pytest.mark.parametrize("damage", [{"rungs": ["3x3"]}, {"rung": 9}, {"best": ["0 0 0"]}, {"search": 5}])
def test_a_damaged_climb_is_refused(damage):
    data = encode_climb(begin_climb(SMALL, Field.GF2, 1, 1)) | damage
    with pytest.raises(DamagedFile):
        decode_climb(data)


def test_the_schoolbook_holds_over_every_field():
    masks = to_masks(schoolbook(Format(2, 2, 2), Field.GF2))
    assert proved_over(Field.ZT, masks, Format(2, 2, 2)).rank == 8


@pytest.fixture
def turned(monkeypatch):
    """3x3x3 taken for large: the last rung is one of schemes that can be turned."""
    if not IS_COMPILED:
        pytest.skip("installed without a compiler")
    monkeypatch.setattr(bit_masks, "LEAST", 3)
    return (Format(2, 3, 3), Format(3, 3, 3))


def test_large_square_matrices_begin_at_the_top_with_schemes_that_turn(turned):
    climb = begin_climb(turned, Field.GF2, 1, 2)
    assert (climb.rung, climb.search.is_turning, climb.search.best_rank, climb.best_rank) == (1, True, 27, 27)
    climb = climbed(climb, replace(RULES, target=23))
    assert verify(from_masks(climb.best, Format(3, 3, 3))).rank == climb.best_rank == 23
    assert not begin_climb(turned, Field.Z, 1, 1).search.is_turning
    assert not begin_climb(turned[1:], Field.GF2, 1, 1).search.is_turning


def test_later_ascents_are_of_both_kinds_and_what_turns_is_cut_down_whole(turned):
    climb = begin_climb(turned, Field.GF2, 2, 1)
    kinds, cut_down = set(), 0
    for _ in range(1_200):
        before, climb = climb.ascents, advance_climb(climb, replace(RULES, round_flips=2_000), 4_000)
        if climb.ascents > before:
            kinds.add((climb.rung, climb.search.is_turning))
            cut_down += climb.rung == 0 and len(climb.search.start) < 18
            assert verify(from_masks(climb.search.whole(climb.search.start), climb.search.format))
    assert kinds >= {(1, True), (1, False), (0, False)}
    assert cut_down


def test_a_climb_among_schemes_that_turn_goes_on_step_for_step(turned):
    through = half = begin_climb(turned, Field.GF2, 3, 2)
    for count in range(8):
        through = advance_climb(through, RULES, 10**9)
        if count < 4:
            half = advance_climb(half, RULES, 10**9)
    back = decode_climb(encode_climb(half))
    assert back == half
    for _ in range(4):
        back = advance_climb(back, RULES, 10**9)
    assert back == through
    assert through.search.is_turning
