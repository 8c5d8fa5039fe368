from palaestra.loggers.event_messages import scalars_event
from palaestra.loggers.event_points import PointsByTags


def test_points_of_the_same_tags_stand_together_in_the_order_in_which_they_came():
    points = PointsByTags()
    points.add(1.0, 512, ("a", "b"), [(1.0, 2.0), (3.0, 4.0)])
    points.add(2.0, 512, ("c",), [(5.0,)])
    points.add(3.0, 513, ("a", "b"), iter([(6.0, 7.0)]))
    together, alone = points
    assert (together.tags, together.moments, together.steps) == (("a", "b"), [1.0, 1.0, 3.0], [512, 512, 513])
    assert together.rows == [(1.0, 2.0), (3.0, 4.0), (6.0, 7.0)]
    assert list(alone.one_by_one()) == [scalars_event(2.0, 512, {"c": 5.0})]


def test_steps_that_take_more_bytes_are_points_of_another_form():
    points = PointsByTags()
    for step in (0, 1, 127, 128, 16_384):
        points.add(1.0, step, ("a",), [(1.0,)])
    assert [alike.steps for alike in points] == [[0], [1, 127], [128], [16_384]]


def test_bytes_that_differ_are_those_of_each_event():
    points = PointsByTags()
    for step in (128, 300, 16_383):
        points.add(0.25 * step, step, ("a", "b"), [(0.1 * step, 1e300)])
    (alike,) = points
    seen = alike.bytes_that_differ().tolist()
    assert seen == [[event[place] for place in alike.form.places] for event in alike.one_by_one()]


def test_no_episode_makes_no_point():
    points = PointsByTags()
    points.add(1.0, 512, ("a",), [])
    assert [alike.rows for alike in points] == [[]]
