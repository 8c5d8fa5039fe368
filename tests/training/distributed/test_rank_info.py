import pytest

from palaestra.core.errors import UsageError
from palaestra.training.distributed.rank_info import RankInfo, elastic_restarts, read_rank_info

WHOLE = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


def test_without_a_rank_one_is_alone_whatever_else_is_set():
    assert read_rank_info({"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1", "HOME": "/"}) is None


def test_torchrun_says_who_one_is():
    assert read_rank_info(WHOLE) == RankInfo(3, 1, 4, "10.0.0.1", 29500)


@pytest.mark.parametrize("missing", WHOLE)
def test_a_part_of_it_is_refused_and_what_is_missing_named(missing):
    given = {name: value for name, value in WHOLE.items() if name != missing}
    with pytest.raises(UsageError, match=f"but {missing} is not"):
        read_rank_info(given)


@pytest.mark.parametrize("wrong", [{"RANK": "4"}, {"RANK": "-1"}, {"LOCAL_RANK": "4"}, {"WORLD_SIZE": "3"}])
def test_numbers_that_do_not_fit_together_are_refused_with_the_numbers(wrong):
    with pytest.raises(UsageError, match=r"RANK=-?\d, LOCAL_RANK=\d and WORLD_SIZE=\d do not fit"):
        read_rank_info({**WHOLE, **wrong})


def test_a_word_is_no_rank():
    with pytest.raises(UsageError, match="RANK='first' is not a whole number"):
        read_rank_info({**WHOLE, "RANK": "first"})


@pytest.mark.parametrize(("given", "expected"), [({}, 0), ({"TORCHELASTIC_RESTART_COUNT": "2"}, 2)])
def test_torchrun_says_how_often_it_has_restarted_the_ranks(given, expected):
    assert elastic_restarts(given) == expected
