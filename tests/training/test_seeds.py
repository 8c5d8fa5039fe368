from palaestra.training.seeds import draw_seed


def test_purposes_runs_and_processes_have_seeds_of_their_own():
    drawn = {draw_seed(seed, purpose, rank) for seed in (0, 1) for purpose in ("dice", "weights") for rank in (0, 1, 2)}
    assert len(drawn) == 12


def test_a_seed_is_the_same_every_time():
    assert draw_seed(7, "dice") == draw_seed(7, "dice", 0)
