from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from palaestra.apps.matmul.schemes.bit_masks import decode_claim, from_masks
from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.flip_search import (
    SearchSettings,
    advance_search,
    decode_search,
    derive_seed,
    encode_search,
    start_search,
)
from palaestra.core.errors import DamagedFile

RULES = SearchSettings(plus_period=200, patience=3000, round_flips=1000)


def rounds(search, count, settings=RULES, pool=None):
    for _ in range(count):
        search = advance_search(search, settings, pool)
    return search


@pytest.mark.parametrize(("sides", "rank"), [((2, 2, 2), 7), ((2, 2, 3), 11), ((2, 3, 3), 15)])
def test_small_formats_reach_the_best_known_rank(sides, rank):
    settings = SearchSettings(plus_period=2000, round_flips=50_000, patience=200_000, target=rank)
    search = start_search(Format(*sides), 1, 1)
    while search.best_rank > rank and search.flips < 5_000_000:
        search = advance_search(search, settings)
    assert verify(from_masks(search.best, search.format)).rank == rank


def test_a_resumed_search_takes_the_same_steps():
    through = rounds(start_search(Format(3, 3, 3), 4, 2), 6)
    half = rounds(start_search(Format(3, 3, 3), 4, 2), 3)
    back = decode_search(encode_search(half), half.format)
    assert back == half
    assert rounds(back, 3) == through


def test_threads_do_not_change_the_search():
    alone = rounds(start_search(Format(2, 3, 3), 2, 3), 4)
    with ThreadPoolExecutor(3) as pool:
        assert rounds(start_search(Format(2, 3, 3), 2, 3), 4, pool=pool) == alone


def test_seeds_differ_by_walker_and_start():
    assert (
        len({derive_seed(seed, walker, start) for seed in range(4) for walker in range(4) for start in range(4)}) == 64
    )


def test_a_walker_without_improvement_restarts_and_its_best_stays_in_the_pool():
    search = rounds(start_search(Format(2, 2, 2), 1, 1), 12, replace(RULES, patience=1000))
    assert search.walkers[0].starts > 1
    assert min(map(len, search.pool)) == search.best_rank
    assert all(verify(from_masks(one, search.format)) for one in search.pool)


def test_the_pool_has_distinct_schemes_and_a_bounded_size():
    search = rounds(start_search(Format(2, 2, 3), 1, 3), 10)
    assert len(search.pool) <= RULES.pool_size
    assert len({tuple(sorted(map(tuple, one))) for one in search.pool}) == len(search.pool)


@pytest.mark.parametrize("damage", [{"walkers": 5}, {"pool": [["1 2"]]}, {"pool": [["0 1 1"]]}, {"seed": "x"}])
def test_a_damaged_search_is_refused(damage):
    data = encode_search(start_search(Format(2, 2, 2), 1, 1)) | damage
    with pytest.raises(DamagedFile):
        decode_search(data, Format(2, 2, 2))


@pytest.mark.parametrize("ring", [Field.GF2, Field.Z3, Field.ZT])
@pytest.mark.parametrize(("sides", "rank"), [((2, 2, 2), 7), ((1, 9, 8), 72)])
def test_every_ring_is_searched_and_resumed_exactly(ring, sides, rank):
    """1x9x8 has masks of 72 bits, in two words; nothing can be saved there."""
    settings = SearchSettings(plus_period=2_000, round_flips=20_000, target=rank)
    search = start_search(Format(*sides), 3, 2, ring=ring)
    for _ in range(4):
        resumed = decode_search(encode_search(search), search.format)
        search, resumed = advance_search(search, settings), advance_search(resumed, settings)
        assert search == resumed
    assert verify(decode_claim(search.best, search.format, ring)).rank == rank
