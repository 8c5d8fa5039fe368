import re
from pathlib import Path

import numpy as np
import pytest

from palaestra.testing import batch_door
from palaestra.testing.batch_door import Door, Part, capsule_of, look_into, make_door

HEADER = Path(__file__).parents[2] / "native" / "batch_door.h"


def fields_of(struct_name: str) -> list[str]:
    """The names of a struct's fields in the header, in their order"""
    body = re.search(rf"typedef struct \{{([^}}]*)\}} {struct_name};", HEADER.read_text())[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    names = []
    for line in body.split(";"):
        function = re.search(r"\(\*(\w+)\)", line)
        names += [function[1]] if function else re.findall(r"(\w+)\s*(?:,|$)", line.strip())
    return names


def test_it_says_what_the_header_says():
    assert fields_of("palaestra_batch_part") == [name for name, _ in Part._fields_]
    assert fields_of("palaestra_batch_door") == [name for name, _ in Door._fields_]
    text = HEADER.read_text()
    assert f'#define PALAESTRA_BATCH_DOOR "{batch_door.NAME.decode()}"' in text
    assert f"#define PALAESTRA_BATCH_DOOR_VERSION {batch_door.VERSION} " in text


def adding(first, last, actions, seen, rewards, ended):
    """Two players a world see the sum of what they said."""
    if actions[2 * first : 2 * last].min() < 0:
        raise ValueError("nothing below 0")
    for row in range(2 * first, 2 * last):
        seen[0][row] += actions[row]
        rewards[row] = actions[row] / 2
    ended[first:last] = [seen[0][2 * world] > 5 for world in range(first, last)]


def test_what_goes_in_on_one_side_comes_out_on_the_other():
    made = make_door(3, 2, {"sum": ("int64", 1)}, adding)
    door = look_into(capsule_of(made))
    assert (door.world_count, door.agents, door.told_parts()) == (3, 2, [("sum", "int64", 1)])
    sums, rewards, ended = np.zeros(6, np.int64), np.zeros(6, np.float32), np.zeros(3, np.uint8)
    door.take_turn()
    door.step_worlds(1, 3, np.arange(6) + 2, [sums], rewards, ended)
    door.end_turn()
    assert sums.tolist() == [0, 0, 4, 5, 6, 7]
    assert rewards.tolist() == [0, 0, 2, 2.5, 3, 3.5]
    assert ended.tolist() == [0, 0, 1]


def test_what_a_step_raises_is_told_in_its_own_words():
    made = make_door(1, 2, {"sum": ("int64", 1)}, adding)
    with pytest.raises(RuntimeError, match="nothing below 0"):
        made.step_worlds(0, 1, np.array([0, -1]), [np.zeros(2)], np.zeros(2, np.float32), np.zeros(1, np.uint8))
