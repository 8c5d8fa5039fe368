import numpy as np
import pytest

from palaestra.evaluation.mosaic import DIMMED, GAP, GROUND, LARGEST, Mosaic, dim, mosaic_for


def plain(height, width, shade):
    return np.full((height, width, 3), shade, np.uint8)


@pytest.mark.parametrize(
    ("count", "rows", "columns"), [(1, 1, 1), (2, 1, 2), (3, 2, 2), (4, 2, 2), (5, 2, 3), (9, 3, 3), (10, 3, 4)]
)
def test_there_is_a_place_for_everyone_and_hardly_more(count, rows, columns):
    mosaic = mosaic_for(count, plain(10, 10, 0))
    assert (mosaic.rows, mosaic.columns) == (rows, columns)
    assert count <= rows * columns < count + columns


@pytest.mark.parametrize("size", [(400, 600), (2160, 3840), (4000, 10), (10, 4000), (1, 1)])
@pytest.mark.parametrize("count", [1, 2, 9, 64])
def test_the_whole_is_never_too_large_and_nothing_is_made_larger(size, count):
    mosaic = mosaic_for(count, plain(*size, 0))
    whole = mosaic.compose([])
    assert whole.shape[0] <= max(LARGEST[0], mosaic.rows * (1 + GAP))
    assert whole.shape[1] <= max(LARGEST[1], mosaic.columns * (1 + GAP))
    assert 1 <= mosaic.height <= size[0]
    assert 1 <= mosaic.width <= size[1]


def test_tiles_stand_in_reading_order_with_gaps_and_empty_places():
    mosaic = Mosaic(2, 2, 3, 5)
    whole = mosaic.compose([plain(3, 5, shade) for shade in (50, 100, 150)])
    assert whole.shape == (6 + GAP, 10 + GAP, 3)
    assert (whole[:3, :5] == 50).all()
    assert (whole[:3, 5 + GAP :] == 100).all()
    assert (whole[3 + GAP :, :5] == 150).all()
    assert (whole[3 + GAP :, 5 + GAP :] == GROUND).all()
    assert (whole[3 : 3 + GAP] == GROUND).all()
    assert (whole[:, 5 : 5 + GAP] == GROUND).all()


def test_a_picture_of_the_tiles_size_is_left_alone():
    picture = np.random.default_rng(0).integers(0, 256, (7, 9, 3), np.uint8)
    assert (Mosaic(1, 1, 7, 9).fit(picture) == picture).all()


def test_another_shape_is_put_in_the_middle_with_bars():
    tile = Mosaic(1, 1, 10, 20).fit(plain(10, 10, 200))
    assert (tile[:, 5:15] == 200).all()
    assert (tile[:, :5] == GROUND).all()
    assert (tile[:, 15:] == GROUND).all()


def test_a_small_picture_is_enlarged_by_whole_pixels():
    picture = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    tile = Mosaic(1, 1, 5, 5).fit(picture)
    assert (tile[0:2, 0:2] == picture[0, 0]).all()
    assert (tile[2:4, 2:4] == picture[1, 1]).all()
    assert (tile[4] == GROUND).all()


def test_shrinking_averages_what_falls_together():
    picture = np.zeros((4, 4, 3), np.uint8)
    picture[:2, :2] = [[[0], [100]], [[100], [200]]]
    assert Mosaic(1, 1, 2, 2).fit(picture)[0, 0].tolist() == [100, 100, 100]


@pytest.mark.parametrize(("before", "after"), [((30, 50), (17, 29)), ((400, 600), (133, 199)), ((7, 7), (1, 1))])
def test_shrinking_keeps_the_mean(before, after):
    picture = np.random.default_rng(1).integers(0, 256, (*before, 3), np.uint8)
    mosaic = Mosaic(1, 1, *after)
    scale = min(after[0] / before[0], after[1] / before[1])
    height, width = int(before[0] * scale + 1e-9), int(before[1] * scale + 1e-9)
    top, left = (after[0] - height) // 2, (after[1] - width) // 2
    shrunk = mosaic.fit(picture)[top : top + height, left : left + width]
    assert shrunk.mean() == pytest.approx(picture.mean(), abs=1)


def test_what_has_ended_is_darker_and_the_original_is_left_alone():
    picture = plain(2, 2, 200)
    assert (dim(picture) == int(200 * DIMMED)).all()
    assert (picture == 200).all()
