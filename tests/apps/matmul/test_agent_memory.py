import numpy as np

from palaestra.apps.matmul.agent_demonstrations import draw_lessons
from palaestra.apps.matmul.agent_memory import AgentMemory
from palaestra.apps.matmul.contractions import views_of
from palaestra.apps.matmul.format import Format

SMALL = Format(2, 2, 2)


def lessons(count, seed):
    return draw_lessons(SMALL, count, 5, np.random.default_rng(seed))


def test_the_newest_are_kept():
    memory = AgentMemory(views_of(SMALL), 6)
    first, second = lessons(5, 1), lessons(4, 2)
    memory.add(first)
    memory.add(second)
    assert len(memory.lessons) == 6
    assert (memory.lessons.tensors[-len(second) :] == second.tensors).all()
    assert (memory.lessons.tensors[:2] == first.tensors[-2:]).all()


def test_an_empty_memory_gives_nothing():
    assert len(AgentMemory(views_of(SMALL), 6).draw(10, np.random.default_rng(1))) == 0


def test_what_is_drawn_was_put_in():
    memory = AgentMemory(views_of(SMALL), 50)
    memory.add(lessons(8, 3))
    drawn = memory.draw(5, np.random.default_rng(1))
    known = {tensor.tobytes() for tensor in memory.lessons.tensors}
    assert len(drawn) == 5
    assert all(tensor.tobytes() in known for tensor in drawn.tensors)


def test_a_restored_memory_gives_the_same_draws():
    memory, twin = AgentMemory(views_of(SMALL), 50), AgentMemory(views_of(SMALL), 50)
    memory.add(lessons(8, 3))
    twin.restore(memory.capture())
    first, second = (each.draw(6, np.random.default_rng(9)) for each in (memory, twin))
    assert (first.tensors == second.tensors).all()
    assert (first.remaining == second.remaining).all()
