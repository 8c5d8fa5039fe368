import ast
import sys

import pytest

from palaestra.apps.scripts.launcher.excerpt import ENV_MAKER, ENV_NAMES, NAME, excerpt, load_excerpt
from palaestra.apps.scripts.launcher.network_makers import NETWORK_MAKER

GUARDED = """
import math
SIZE = int(math.sqrt(49))
class Net:
    def __init__(self, size):
        self.size = size
if __name__ == "__main__":
    net = wrapped(Net(args.width + SIZE)).to(device)
    envs = gym.vector.SyncVectorEnv([make_env(args.name, i) for i in range(4)])
    raise RuntimeError("this trains")
"""
BARE = """
import math
WIDTH = 3
class Net:
    def __init__(self, size):
        self.size = size
def train():
    raise RuntimeError("this trains")
net = Net(WIDTH)
train()
"""


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setitem(sys.modules, NAME, sys)
    return lambda source, networks: load_excerpt(source.encode(), "made.py", networks)


def test_the_main_block_is_left_out_and_what_stands_before_it_is_kept(load):
    script = load(GUARDED, {})
    assert script.SIZE == 7
    assert script.__file__ == "made.py"
    assert not hasattr(script, "envs")


def test_the_scripts_own_words_make_networks_and_environments(load):
    script = load(GUARDED, {"net": "Net"})
    script.args = type("Args", (), {"width": 2, "name": "x"})
    script.make_env = lambda name, number: (name, number)
    assert getattr(script, NETWORK_MAKER + "net")().size == 9
    assert getattr(script, ENV_MAKER)() == ("x", 0)


def test_of_a_script_without_a_main_block_only_definitions_are_left(load):
    script = load(BARE, {"net": "Net"})
    assert script.WIDTH == 3
    assert not hasattr(script, "net")
    assert getattr(script, NETWORK_MAKER + "net")().size == 3


def test_a_name_that_is_never_assigned_has_no_maker():
    made = ast.unparse(excerpt(ast.parse(GUARDED), {"agent": "Net"}))
    assert NETWORK_MAKER not in made


def test_an_assignment_that_needs_what_is_left_out_is_left_out_too(load):
    script = load("import math\nenv = math.sqrt(4)\nsize = env\nfor turn in [1]: pass\nlast = turn\nKEPT = 3\n", {})
    assert not {"env", "size", "last"} & set(vars(script))
    assert script.KEPT == 3


def test_the_names_of_environments_are_told(load):
    assert getattr(load("env = gym.make('X')\n", {}), ENV_NAMES) == {"env": "single"}
    vector = load("if __name__ == '__main__':\n    many = gym.vector.SyncVectorEnv([lambda: 5])\n", {})
    assert getattr(vector, ENV_NAMES) == {"many": "vector"}


def test_a_vector_of_one_lambda_has_a_maker_without_a_counter(load):
    script = load("if __name__ == '__main__':\n    envs = SyncVectorEnv([lambda: 5])\n", {})
    assert getattr(script, ENV_MAKER)()() == 5
