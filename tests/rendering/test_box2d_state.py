import gymnasium
import pytest

from palaestra.rendering.box2d_state import BodyTable, World, is_box2d

pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # of Box2D, when it is imported


@pytest.fixture
def lander():
    env = gymnasium.make("LunarLander-v3")
    env.reset(seed=1)
    yield env.unwrapped
    env.close()


def refused(part, name):
    raise AssertionError(name)


def encoded(table, *objects):
    table.begin()
    values = [table.encode(one, refused) for one in objects]
    return values, table.changes()


def test_bodies_are_known_by_their_module(lander):
    assert is_box2d(lander.lander)
    assert is_box2d(lander.world)
    assert not is_box2d(lander)
    assert not is_box2d((1, 2))


def test_shapes_are_sent_once_and_positions_when_they_change(lander):
    table = BodyTable()
    values, first = encoded(table, lander.lander, lander.moon)
    assert values == [{"$body": 0}, {"$body": 1}]
    assert [len(first["bodies"][number]["shapes"]) for number in "01"] == [1, 11]
    assert set(first["moved"]) == {"0", "1"}
    assert encoded(table, lander.lander, lander.moon)[1] == {}
    lander.step(2)
    _, later = encoded(table, lander.lander, lander.moon)
    assert list(later) == ["moved"]
    assert list(later["moved"]) == ["0"]
    assert later["moved"]["0"][:2] == tuple(lander.lander.position)


def test_bodies_of_the_episode_before_are_let_go_and_never_touched_again(lander):
    table = BodyTable()
    encoded(table, lander.lander)
    lander.reset(seed=2)  # which destroys them
    values, changes = encoded(table, lander.lander)
    assert values == [{"$body": 1}]
    assert changes["held"] == [1]
    assert list(changes["moved"]) == ["1"]


def test_worlds_joints_and_listeners_are_not_described(lander):
    table = BodyTable()
    joint = lander.legs[0].joint
    values, changes = encoded(table, lander.world, joint)
    assert (values, changes) == ([{"$world": True}, {"$nothing": True}], {})
    World().DestroyBody(None)
