import numpy as np
import pytest

from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.game import TensorGame, slice_rank
from palaestra.apps.matmul.game_settings import GameSettings
from palaestra.apps.matmul.verification import NotAnAlgorithm, product_tensor, verify


def actions_of(claim):
    return np.concatenate(claim.factors, axis=1)


def play(game, rows):
    for row in rows:
        moved = game.step(np.repeat(row[None], game.count, axis=0))
    return moved


def begun(count=1, **settings):
    game = TensorGame(GameSettings(**settings), count)
    game.reset(range(count), range(count))
    return game


@pytest.mark.parametrize("field", ["gf2", "zt"])
def test_strassens_products_solve_the_game_in_seven_moves(field, strassen, strassen_bits):
    rows = actions_of(strassen_bits if field == "gf2" else strassen)
    game = begun(field=field)
    before_last = play(game, rows[:6])
    assert not before_last.are_solved.any()
    assert not before_last.have_ended.any()
    last = play(game, rows[6:])
    assert last.are_solved.all()
    assert last.ranks_used.tolist() == [7]
    assert last.rewards.tolist() == [-1.0]
    assert verify(game.factorization(0)).rank == 7


def test_an_untouched_tensor_is_not_solved_however_small_its_norm():
    game = begun()
    nothing = np.zeros((1, 12), np.int64)
    moved = game.step(nothing)
    assert moved.residual_norms[0] == pytest.approx(8**0.5)
    assert not moved.are_solved.any()
    assert not moved.are_valid.any()
    assert moved.ranks_used.tolist() == [0]


def test_signs_matter_over_whole_numbers(strassen):
    rows = actions_of(strassen)
    rows[0, 0] = -rows[0, 0]
    moved = play(begun(field="zt"), rows)
    assert not moved.are_solved.any()
    assert moved.residual_norms[0] > 0


def test_who_gives_up_pays_for_what_is_left():
    game = begun(max_rank=3)
    rows = actions_of(schoolbook(Format(2, 2, 2), Field.GF2))
    moved = play(game, rows[:3])
    assert moved.have_ended.all()
    assert moved.rewards.tolist() == [-1.0 - 5.0]  # five products of the schoolbook were not taken
    with pytest.raises(NotAnAlgorithm, match="nonzeros"):
        verify(game.factorization(0))


def test_in_another_basis_the_game_is_solved_by_the_moved_products_and_the_claim_is_moved_back(strassen_bits):
    game = begun(count=5, change_of_basis=True)
    shown = game.residuals.copy()
    assert any((each != product_tensor(Format(2, 2, 2))).any() for each in shown)
    bases = game.capture()["bases"]
    for place in range(7):
        rows = [
            np.concatenate(
                [base[0] @ factor[place] % 2 for base, factor in zip(three, strassen_bits.factors, strict=True)]
            )
            for three in bases
        ]
        moved = game.step(np.array(rows))
    assert moved.are_solved.all()
    for each in range(5):
        assert sorted(actions_of(game.factorization(each)).tolist()) == sorted(actions_of(strassen_bits).tolist())


def test_the_same_seed_shows_the_same_basis_and_another_seed_another():
    game = begun(count=2, change_of_basis=True)
    game.reset([0, 1], [7, 7])
    assert (game.residuals[0] == game.residuals[1]).all()
    game.reset([1], [8])
    assert (game.residuals[0] != game.residuals[1]).any()


def test_a_captured_game_goes_on_as_it_would_have(strassen_bits):
    rows = actions_of(strassen_bits)
    game = begun(change_of_basis=True)
    play(game, rows[:3])
    twin = TensorGame(game.settings, 1)
    twin.restore(game.capture())
    first, second = play(game, rows[3:]), play(twin, rows[3:])
    assert (game.residuals == twin.residuals).all()
    assert first.residual_norms == second.residual_norms
    assert (game.factorization(0).u == twin.factorization(0).u).all()


def test_the_slice_rank_of_a_product_is_the_smallest_of_the_three_schoolbooks():
    assert slice_rank(product_tensor(Format(2, 3, 4)), Field.GF2) == 24
    one = np.zeros((4, 4, 4), np.int64)
    one[1:3, 0, :2] = 1
    assert slice_rank(one, Field.ZT) == 1
