from palaestra.core.seeds import draw_seed, global_seed


def test_purposes_runs_and_processes_have_seeds_of_their_own():
    drawn = {draw_seed(seed, purpose, rank) for seed in (0, 1) for purpose in ("dice", "weights") for rank in (0, 1, 2)}
    assert len(drawn) == 12


def test_a_seed_is_the_same_every_time():
    assert draw_seed(7, "dice") == draw_seed(7, "dice", 0)


def test_the_leaders_global_seed_is_the_runs_and_every_other_rank_has_its_own():
    assert global_seed(3, 0) == 3
    assert len({global_seed(3, rank) for rank in range(8)}) == 8
