from __future__ import annotations

import pytest
from pydantic import ValidationError

from palaestra.apps.matmul.config import BRIEF, SIZES, BenchConfig, DiscoverConfig, changed_keys
from palaestra.config.resolve import resolve_config
from palaestra.core.errors import UsageError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "3x3"}, "Invalid format"),
        ({"format": "0x2x2"}, "side 0"),
        ({"format": "3x3x99"}, "side 99"),
        ({"field": "zi"}, "no search over zi"),
        ({"field": "gf2", "walk": "z3"}, "walk=z3 gives no scheme over gf2; use gf2"),
        ({"field": "q", "method": "agent"}, "method=agent searches over gf2, zt, z"),
        ({"field": "ternery"}, "Did you mean 'ternary'"),
        ({"method": "flop"}, "flip"),
        ({"seconds": 0}, "seconds"),
        ({"walkers": 0}, "walkers"),
        ({"sede": 1}, "seed"),
    ],
)
def test_invalid_search_settings_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        resolve_config(DiscoverConfig, None, settings)


def test_the_default_target_is_the_best_known_rank_of_the_field():
    assert DiscoverConfig(format="4x4x4").search_settings.target == 47
    assert DiscoverConfig(format="4x4x4", field="z").search_settings.target == 49
    assert DiscoverConfig(format="4x4x4", target=0).search_settings.target == 0
    assert DiscoverConfig(format="1x1x7").search_settings.target == 0


def test_all_search_settings_come_from_the_config():
    config = DiscoverConfig(plus_period=11, margin=3, patience=12, round_flips=13, pool_size=5, target=9)
    search_settings = config.search_settings
    assert (search_settings.plus_period, search_settings.margin, search_settings.patience) == (11, 3, 12)
    assert (search_settings.round_flips, search_settings.pool_size, search_settings.target) == (13, 5, 9)


def test_changeable_keys_do_not_make_another_search():
    stored = DiscoverConfig().model_dump(mode="json")
    assert changed_keys(stored, DiscoverConfig(seconds=5, target=3)) == []
    assert changed_keys(stored, DiscoverConfig(seed=2)) == ["seed"]


def test_the_default_sizes_include_odd_ones():
    assert min(SIZES) == 64
    assert max(SIZES) == 4096
    assert any(size % 2 for size in SIZES)


def test_an_unknown_dtype_gets_a_suggestion():
    with pytest.raises(ValidationError, match="Did you mean 'float32'"):
        BenchConfig(dtypes=("float23",))


@pytest.mark.parametrize("wrong", [{"sizes": (0,)}, {"threads": 0}, {"levels": 9}, {"bits": (-8,)}, {"speed": 1}])
def test_invalid_benchmark_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        BenchConfig(**wrong)


def test_the_brief_benchmark_has_small_sizes():
    assert max(BRIEF.sizes) <= 512
    assert BRIEF.seconds * len(BRIEF.sizes) * len(BRIEF.dtypes) < 3


def test_values_and_keys_of_version_0_1_are_accepted():
    old = DiscoverConfig(start="schoolbook", agent={"memory": 10, "plateau_share": 0.5, "most_listed": 7})
    assert old.start == "naive"
    assert (old.agent.replay_size, old.agent.naive_share, old.agent.max_listed_moves) == (10, 0.5, 7)
    stored = {**DiscoverConfig().model_dump(mode="json"), "start": "schoolbook"}
    assert changed_keys(stored, DiscoverConfig(start="naive")) == []
    assert changed_keys(stored, DiscoverConfig()) == ["start"]
