import re
from pathlib import Path

import numpy as np
import pytest

from palaestra.testing import batch_step_api
from palaestra.testing.batch_step_api import BatchPart, BatchStepApi, make_capsule, make_step_api, read_capsule

HEADER = Path(__file__).parents[2] / "native" / "batch_step_api.h"


def fields_of(struct_name: str) -> list[str]:
    """The names of a struct's fields in the header, in their order"""
    body = re.search(rf"typedef struct \{{([^}}]*)\}} {struct_name};", HEADER.read_text())[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    names = []
    for line in body.split(";"):
        function = re.search(r"\(\*(\w+)\)", line)
        names += [function[1]] if function else re.findall(r"(\w+)\s*(?:,|$)", line.strip())
    return names


def test_the_struct_is_that_of_the_header():
    assert fields_of("palaestra_batch_part") == [name for name, _ in BatchPart._fields_]
    assert fields_of("palaestra_batch_step_api") == [name for name, _ in BatchStepApi._fields_]
    text = HEADER.read_text()
    assert f'#define PALAESTRA_BATCH_STEP_API "{batch_step_api.NAME.decode()}"' in text
    assert f"#define PALAESTRA_BATCH_STEP_API_VERSION {batch_step_api.VERSION} " in text


def adding(first, last, actions, observed, rewards, ended):
    """Each row observes the sum of its actions."""
    if actions[2 * first : 2 * last].min() < 0:
        raise ValueError("nothing below 0")
    for row in range(2 * first, 2 * last):
        observed[0][row] += actions[row]
        rewards[row] = actions[row] / 2
    ended[first:last] = [observed[0][2 * world] > 5 for world in range(first, last)]


def test_a_step_reads_actions_and_writes_the_results():
    made = make_step_api(3, 2, {"sum": ("int64", 1)}, adding)
    api = read_capsule(make_capsule(made))
    assert (api.world_count, api.agents, api.describe_parts()) == (3, 2, [("sum", "int64", 1)])
    sums, rewards, ended = np.zeros(6, np.int64), np.zeros(6, np.float32), np.zeros(3, np.uint8)
    api.acquire()
    api.step_worlds(1, 3, np.arange(6) + 2, [sums], rewards, ended)
    api.release()
    assert sums.tolist() == [0, 0, 4, 5, 6, 7]
    assert rewards.tolist() == [0, 0, 2, 2.5, 3, 3.5]
    assert ended.tolist() == [0, 0, 1]


def test_an_exception_of_a_step_becomes_the_message():
    made = make_step_api(1, 2, {"sum": ("int64", 1)}, adding)
    with pytest.raises(RuntimeError, match="nothing below 0"):
        made.step_worlds(0, 1, np.array([0, -1]), [np.zeros(2)], np.zeros(2, np.float32), np.zeros(1, np.uint8))
