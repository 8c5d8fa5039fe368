import numpy as np

from palaestra.apps.matmul.refinement import refined, single_rows, smallest_class, with_one_apart

# a path of five: 0 - 1 - 2 - 3 - 4
PATH = np.array([[int(abs(i - j) == 1) for j in range(5)] for i in range(5)])
ALIKE = np.zeros(5, dtype=np.int64)


def test_rows_of_a_path_are_told_apart_by_their_distance_from_the_middle():
    colours, _ = refined(ALIKE, PATH)
    assert colours[0] == colours[4] != colours[1] == colours[3] != colours[2]
    assert len(set(colours.tolist())) == 3


def test_the_order_of_rows_changes_neither_colours_nor_what_was_seen():
    order = np.array([3, 0, 4, 2, 1])
    colours, told = refined(ALIKE, PATH)
    other, also = refined(ALIKE, PATH[np.ix_(order, order)])
    assert other.tolist() == colours[order].tolist()
    assert also == told


def test_other_relations_are_seen_as_others():
    ring = PATH.copy()
    ring[0, 4] = ring[4, 0] = 1
    assert refined(ALIKE, ring)[1] != refined(ALIKE, PATH)[1]


def test_one_row_set_apart_tells_all_others_apart():
    colours, _ = refined(ALIKE, PATH)
    assert single_rows(colours) == [2]
    assert smallest_class(colours) in ([0, 4], [1, 3])
    finer, _ = refined(with_one_apart(colours, 0), PATH)
    assert sorted(single_rows(finer)) == [0, 1, 2, 3, 4]
    assert smallest_class(finer) == []
    assert finer[0] < finer[4]
