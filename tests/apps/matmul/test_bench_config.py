import pytest
from pydantic import ValidationError

from palaestra.apps.matmul.bench_config import BRIEF, SIZES, BenchConfig


def test_odd_sizes_are_among_those_that_are_timed():
    assert min(SIZES) == 64
    assert max(SIZES) == 4096
    assert any(size % 2 for size in SIZES)


def test_an_unknown_type_is_refused_with_the_nearest():
    with pytest.raises(ValidationError, match="Did you mean 'float32'"):
        BenchConfig(dtypes=("float23",))


@pytest.mark.parametrize("wrong", [{"sizes": (0,)}, {"threads": 0}, {"levels": 9}, {"bits": (-8,)}, {"speed": 1}])
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ValidationError):
        BenchConfig(**wrong)


def test_the_first_look_is_brief():
    assert max(BRIEF.sizes) <= 512
    assert BRIEF.seconds * len(BRIEF.sizes) * len(BRIEF.dtypes) < 3
