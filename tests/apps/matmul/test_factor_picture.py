import numpy as np

from palaestra.apps.matmul.factor_picture import GAP, MINUS, NOTHING, PLUS, SQUARE, draw_factors


def test_every_coefficient_has_its_square_and_its_colour(strassen):
    picture = draw_factors(strassen, 8)
    assert picture.shape == (2 * GAP + 8 * SQUARE, 4 * GAP + 12 * SQUARE, 3)
    colours = {1: PLUS, 0: NOTHING, -1: MINUS}
    left = GAP
    for factor in strassen.factors:
        for row, column in np.ndindex(factor.shape):
            pixel = picture[GAP + row * SQUARE, left + column * SQUARE]
            assert tuple(pixel.tolist()) == colours[int(factor[row, column])]
        left += 4 * SQUARE + GAP
