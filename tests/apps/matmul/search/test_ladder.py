import json
from dataclasses import replace

import pytest

from palaestra.apps.matmul.schemes import bit_masks
from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization, parse_format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search import ladder
from palaestra.apps.matmul.search.flip_search import SearchSettings
from palaestra.apps.matmul.search.flip_walk import IS_COMPILED
from palaestra.apps.matmul.search.ladder import (
    advance_ladder,
    best_so_far,
    decode_ladder,
    encode_ladder,
    extend_scheme,
    ladder_rungs,
    lift_to_field,
    start_ladder,
)
from palaestra.core.errors import DamagedFile

RULES = SearchSettings(plus_period=2000, patience=200_000, round_flips=20_000)
SMALL = (Format(2, 2, 2), Format(2, 2, 3), Format(2, 3, 3))


def run_to_end(state, settings, rung_flips=400_000, rounds=200):
    for _ in range(rounds):
        if state.best_rank <= settings.target:
            break
        state = advance_ladder(state, settings, rung_flips)
    return state


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
def test_the_ladder_starts_at_a_small_format(wanted, rungs):
    assert [str(rung) for rung in ladder_rungs(parse_format(wanted))] == rungs.split()


def test_an_extended_scheme_is_valid_and_adds_the_rank_of_the_strip(strassen_bits):
    for wanted, more in ((Format(3, 2, 2), 4), (Format(2, 3, 2), 4), (Format(2, 2, 4), 8)):
        masks = extend_scheme(to_masks(strassen_bits), Format(2, 2, 2), wanted)
        assert verify(from_masks(masks, wanted)).rank == 7 + more


def test_the_ladder_reaches_the_best_known_rank():
    state = run_to_end(start_ladder(SMALL, Field.GF2, 1, 1), replace(RULES, target=15))
    assert (state.rung, state.best_rank) == (2, 15)
    assert verify(from_masks(state.best, Format(2, 3, 3))).rank == 15


def test_a_resumed_ladder_takes_the_same_steps():
    through = half = start_ladder(SMALL, Field.GF2, 3, 2)
    for count in range(8):
        through = advance_ladder(through, RULES, 50_000)
        if count < 4:
            half = advance_ladder(half, RULES, 50_000)
    back = decode_ladder(encode_ladder(half))
    assert back == half
    for _ in range(4):
        back = advance_ladder(back, RULES, 50_000)
    assert back == through
    assert through.rung or through.ascents  # the comparison is not trivial


def test_a_new_ascent_uses_another_seed_and_keeps_the_best():
    state = start_ladder(SMALL[:2], Field.GF2, 1, 1)
    first = state.search.walkers[0].rng_state
    best = state.best_rank
    for _ in range(40):
        state = advance_ladder(state, RULES, 20_000)
        assert state.best_rank <= best
        best = state.best_rank
        if state.ascents:
            break
    assert state.ascents == 1
    assert state.search.walkers[0].rng_state != first


@pytest.mark.parametrize("rungs", [SMALL, SMALL[1:]])
def test_later_ascents_start_on_any_rung_from_the_rung_pools(rungs):
    state = start_ladder(rungs, Field.GF2, 1, 1)
    started = {}
    for _ in range(400):
        before, state = state.ascents, advance_ladder(state, replace(RULES, round_flips=2_000), 4_000)
        if state.ascents > before:
            assert verify(from_masks(state.search.start, state.search.format))
            started.setdefault(state.rung, set()).add(len(state.search.start))
    assert set(started) == set(range(len(rungs)))
    for rung in range(1, len(rungs)):
        assert max(started[rung]) < rungs[rung].naive_rank
    best = [min(map(len, pool)) for pool in state.rung_pools]
    assert best[-2:-1] == [11]
    assert all(len(pool) <= ladder.RUNG_POOL_SIZE for pool in state.rung_pools)


def test_a_rung_lasts_as_long_as_it_improves():
    """Counts flips since the last improvement, not since the start of the rung."""
    state = start_ladder((Format(3, 3, 3), Format(3, 3, 4)), Field.GF2, 1, 1)
    improved = []
    while state.rung == 0:
        ranks, state = state.search.best_rank, advance_ladder(state, replace(RULES, round_flips=500), 1_500)
        improved.append(state.rung == 0 and state.search.best_rank < ranks)
    assert len(improved) > 4
    assert not any(improved[-3:])


def test_a_search_of_schema_version_4_is_read():
    old_keys = {
        "improved_at": "fallen_at",
        "rung_pools": "shelves",
        "is_cyclic": "is_turning",
        "rng_state": "dice",
        "since_reduction": "since_fall",
    }
    state = run_to_end(start_ladder(SMALL, Field.GF2, 1, 2), replace(RULES, target=11))
    text = json.dumps(encode_ladder(state))
    for new, old in old_keys.items():
        assert f'"{new}"' in text
        text = text.replace(f'"{new}"', f'"{old}"')
    assert decode_ladder(json.loads(text)) == state


def test_a_search_without_rung_pools_is_read():
    data = encode_ladder(start_ladder(SMALL, Field.GF2, 1, 1))
    old = {key: value for key, value in data.items() if key not in {"improved_at", "rung_pools"}}
    assert decode_ladder(old) == start_ladder(SMALL, Field.GF2, 1, 1)


def test_over_the_integers_only_schemes_that_lift_are_extended_or_stored(monkeypatch):
    state = run_to_end(start_ladder(SMALL[:2], Field.ZT, 1, 1), replace(RULES, target=11))
    assert lift_to_field(Field.ZT, state.best, state.format).field is Field.ZT
    monkeypatch.setattr(ladder, "lift", lambda proved, deadline, **_: None)
    monkeypatch.setattr(ladder, "_LIFTED", {})
    state = start_ladder(SMALL[:2], Field.Z, 1, 1)
    for _ in range(5):
        state = advance_ladder(state, RULES, 10**9)
    assert state.rung == 0  # no scheme lifts, so none is extended
    assert state.search.walkers[0].starts > 0
    assert state.best_rank == 12


@pytest.mark.parametrize("field", [Field.GF2, Field.ZT])
def test_a_result_of_a_lower_rung_is_extended_at_the_deadline(field):
    state = start_ladder(SMALL, field, 1, 1)
    while state.search.best_rank > 7 and state.rung == 0:
        state = advance_ladder(state, replace(RULES, round_flips=50), 10**9)
    state = replace(state, search=replace(state.search, pool=(state.search.best,)))
    best = best_so_far(state)
    assert state.best_rank == 18
    assert lift_to_field(field, best, state.format).rank < 18
    assert len(best) == state.search.best_rank + sum(6 if k == 1 else 4 for k in range(state.rung, 2))


def test_a_given_start_is_used(strassen_bits):
    state = start_ladder((Format(2, 2, 2),), Field.GF2, 1, 1, to_masks(strassen_bits))
    assert state.best_rank == 7


@pytest.mark.parametrize("damage", [{"rungs": ["3x3"]}, {"rung": 9}, {"best": ["0 0 0"]}, {"search": 5}])
def test_a_damaged_state_is_refused(damage):
    data = encode_ladder(start_ladder(SMALL, Field.GF2, 1, 1)) | damage
    with pytest.raises(DamagedFile):
        decode_ladder(data)


def test_the_naive_scheme_is_valid_over_every_field():
    masks = to_masks(naive_factorization(Format(2, 2, 2), Field.GF2))
    assert lift_to_field(Field.ZT, masks, Format(2, 2, 2)).rank == 8


@pytest.fixture
def cyclic_state(monkeypatch):
    """3x3x3 as a large format: the last rung is a cyclic search."""
    if not IS_COMPILED:
        pytest.skip("installed without a compiler")
    monkeypatch.setattr(bit_masks, "MIN_CYCLIC_SIDE", 3)
    return (Format(2, 3, 3), Format(3, 3, 3))


def test_large_square_formats_start_with_a_cyclic_search_on_the_last_rung(cyclic_state):
    state = start_ladder(cyclic_state, Field.GF2, 1, 2)
    assert (state.rung, state.search.is_cyclic, state.search.best_rank, state.best_rank) == (1, True, 27, 27)
    state = run_to_end(state, replace(RULES, target=23))
    assert verify(from_masks(state.best, Format(3, 3, 3))).rank == state.best_rank == 23
    assert not start_ladder(cyclic_state, Field.Z, 1, 1).search.is_cyclic
    assert not start_ladder(cyclic_state[1:], Field.GF2, 1, 1).search.is_cyclic


def test_later_ascents_are_cyclic_or_ordinary_and_cyclic_results_are_expanded(cyclic_state):
    state = start_ladder(cyclic_state, Field.GF2, 2, 1)
    kinds, cut_down = set(), 0
    for _ in range(1_200):
        before, state = state.ascents, advance_ladder(state, replace(RULES, round_flips=2_000), 4_000)
        if state.ascents > before:
            kinds.add((state.rung, state.search.is_cyclic))
            cut_down += state.rung == 0 and len(state.search.start) < 18
            assert verify(from_masks(state.search.expand(state.search.start), state.search.format))
    assert kinds >= {(1, True), (1, False), (0, False)}
    assert cut_down


def test_a_resumed_cyclic_search_takes_the_same_steps(cyclic_state):
    through = half = start_ladder(cyclic_state, Field.GF2, 3, 2)
    for count in range(8):
        through = advance_ladder(through, RULES, 10**9)
        if count < 4:
            half = advance_ladder(half, RULES, 10**9)
    back = decode_ladder(encode_ladder(half))
    assert back == half
    for _ in range(4):
        back = advance_ladder(back, RULES, 10**9)
    assert back == through
    assert through.search.is_cyclic
