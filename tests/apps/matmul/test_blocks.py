import numpy as np

from palaestra.apps.matmul.blocks import LINE, aligned_empty, empty_planes, row_width, split


def test_rows_of_a_part_are_as_far_apart_as_those_of_the_whole():
    assert row_width(np.zeros((4, 6))[:, :3]) == 6


def test_blocks_are_views_in_the_order_of_reading_with_their_addresses():
    matrix = np.arange(24.0).reshape(4, 6)
    blocks = split(matrix, 2, 3)
    assert len(blocks) == 6
    assert blocks.planes[4].tolist() == [[14, 15], [20, 21]]
    assert blocks.places[:, 1].tolist() == [6] * 6
    assert (blocks.places[:, 0] - matrix.ctypes.data).tolist() == [8 * place for place in (0, 2, 4, 12, 14, 16)]


def test_planes_do_not_touch_and_each_row_begins_with_a_line():
    planes = empty_planes(3, 5, 9, np.dtype(np.float32))
    for value, plane in enumerate(planes.planes):
        plane[:] = value
    assert [set(plane.ravel().tolist()) for plane in planes.planes] == [{0.0}, {1.0}, {2.0}]
    assert all(row.ctypes.data % LINE == 0 for plane in planes.planes for row in plane)


def test_no_planes_are_an_empty_table():
    assert empty_planes(0, 4, 4, np.dtype(np.int64)).places.shape == (0, 2)


def test_memory_begins_with_a_line_and_has_the_length_asked_for():
    for entries in (1, 1000):
        made = aligned_empty(entries, np.dtype(np.int64))
        assert len(made) == entries
        assert made.ctypes.data % LINE == 0
