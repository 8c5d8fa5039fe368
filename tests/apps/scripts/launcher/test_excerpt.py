from __future__ import annotations

import ast
import sys
import types

import pytest

from palaestra.apps.scripts.launcher.excerpt import (
    ENV_MAKER,
    ENV_NAMES,
    NAME,
    NETWORK_MAKER,
    WRAPPING,
    assigned_names,
    excerpt,
    load_excerpt,
    network_makers,
    single_env,
    vector_wrapping,
)

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


def test_the_main_block_is_left_out_and_what_stands_before_it_is_stored(load):
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


def test_the_names_of_environments_are_reported(load):
    assert getattr(load("env = gym.make('X')\n", {}), ENV_NAMES) == {"env": "single"}
    vector = load("if __name__ == '__main__':\n    many = gym.vector.SyncVectorEnv([lambda: 5])\n", {})
    assert getattr(vector, ENV_NAMES) == {"many": "vector"}


def test_a_vector_of_one_lambda_has_a_maker_without_a_counter(load):
    script = load("if __name__ == '__main__':\n    envs = SyncVectorEnv([lambda: 5])\n", {})
    assert getattr(script, ENV_MAKER)()() == 5


def made(source, name, class_name, known=()):
    """The maker, as Python writes it."""
    (function,) = network_makers(ast.parse(source), {name: class_name}, set(known))
    ast.fix_missing_locations(function)
    return ast.unparse(function).splitlines()


def test_of_an_assignment_only_the_call_of_the_class_is_taken():
    lines = made("net = compiled(Net(args.width)).to(device)", "net", "Net", {"args"})
    assert lines == [f"def {NETWORK_MAKER}net():", "    return Net(args.width)"]


def test_what_the_call_needs_comes_with_it_and_nothing_else():
    source = "width = 3\ndepth = 5\nother = train()\nsize = width * 2\nnet = Net(size)"
    assert made(source, "net", "Net")[1:] == ["    width = 3", "    size = width * 2", "    return Net(size)"]


def test_names_that_are_known_need_no_statement():
    source = "args = parse()\nenvs = make()\nnet = Net(envs, args)"
    assert made(source, "net", "Net", {"args", "envs"})[1:] == ["    return Net(envs, args)"]


def test_a_value_that_a_condition_changes_is_changed_again():
    source = "size = 3\nif size < 5:\n    size = 5\nnet = Net(size)"
    assert made(source, "net", "Net")[1:-1] == ["    size = 3", "    if size < 5:", "        size = 5"]


def test_a_network_that_a_function_gives_is_made_by_its_whole_assignment():
    assert made("a, b = build(4)\n", "b", "Net")[1:] == ["    a, b = build(4)", "    return b"]


def test_a_network_inside_a_function_is_found_with_what_stands_before_it_there():
    source = "WIDTH = 3\ndef main():\n    size = WIDTH\n    with lock:\n        net = Net(size)\n"
    assert made(source, "net", "Net", {"WIDTH"})[1:] == ["    size = WIDTH", "    return Net(size)"]


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("a = b = 1", {"a", "b"}),
        ("a, (b, c) = f()", {"a", "b", "c"}),
        ("a: int = 1", {"a"}),
        ("a += 1", {"a"}),
        ("a.b = 1", set()),
        ("if x:\n    a = 1\nelse:\n    b = 1", {"a", "b"}),
        ("def f(): a = 1", {"f"}),
        ("train(a)", set()),
    ],
)
def test_what_a_statement_assigns(statement, names):
    assert assigned_names(ast.parse(statement).body[0]) == names


def run(function, **known):
    """What the lifted function is, compiled among names that it may know; None when there is none."""
    if function is None:
        return None
    module = types.ModuleType("made")
    vars(module).update(known)
    tree = ast.fix_missing_locations(ast.Module(body=[function], type_ignores=[]))
    source = ast.unparse(tree)
    loader = compile(source, "made.py", "exec")
    types.FunctionType(loader, vars(module))()
    return getattr(module, function.name)


def around(name):
    return lambda inner, *rest: (name, inner, *rest)


MAIN = "if __name__ == '__main__':\n"


def test_what_is_put_around_all_of_them_is_lifted_in_its_order():
    tree = ast.parse(
        "def make_env():\n    env = Inner(gym.make())\n    return env\n"
        + MAIN
        + "    envs = gym.vector.SyncVectorEnv([make_env])\n"
        "    assert envs\n    envs = A(envs)\n    agent = Net(envs)\n    envs = B(envs, args.size)\n"
        "    obs = envs.reset()\n"
    )
    wrap = run(vector_wrapping(tree), A=around("a"), B=around("b"), args=types.SimpleNamespace(size=3))
    assert wrap.__name__ == WRAPPING
    assert wrap("vector") == ("b", ("a", "vector"), 3)


def test_a_function_that_trains_is_looked_into_as_well():
    tree = ast.parse("def main():\n    envs = SyncVectorEnv(makers)\n    envs = A(envs)\n" + MAIN + "    main()\n")
    assert run(vector_wrapping(tree), A=around("a"))("vector") == ("a", "vector")


def test_what_is_put_around_in_the_same_breath_is_lifted_too():
    tree = ast.parse("envs = A(AsyncVectorEnv(makers), 5)\n")
    assert run(vector_wrapping(tree), A=around("a"))("vector") == ("a", "vector", 5)


@pytest.mark.parametrize(("switch", "wanted"), [(True, ("a", "vector")), (False, "vector")])
def test_an_if_decides_as_it_did_in_the_script(switch, wanted):
    tree = ast.parse(MAIN + "    envs = gym.make_vec(args.env_id)\n    if switch:\n        envs = A(envs)\n")
    assert run(vector_wrapping(tree), A=around("a"), switch=switch)("vector") == wanted


@pytest.mark.parametrize(
    "text",
    [
        "envs = SyncVectorEnv(makers)\nenvs.dtype = 3\nenvs = None\nother = A(envs)\n",
        "def make_env():\n    envs = SyncVectorEnv(makers)\n    envs = A(envs)\n",
        "env = gym.make('X')\nenv = A(env)\n",
    ],
)
def test_where_nothing_is_put_around_a_vector_there_is_no_function(text):
    assert vector_wrapping(ast.parse(text)) is None


@pytest.mark.parametrize("value", ["gym.make(name)", "make_env(name)()", "B(gym.make(name))"])
def test_a_single_environment_is_made_with_all_that_is_around_it(value):
    tree = ast.parse(f"env = {value}\nenv = A(env)\nobs, _ = env.reset()\n")
    gym = types.SimpleNamespace(make=lambda name: name)
    known = {"gym": gym, "make_env": lambda name: lambda: name, "A": around("a"), "B": lambda env: env, "name": "X"}
    assert run(single_env(tree, "made"), **known)() == ("a", "X")


@pytest.mark.parametrize("text", ["envs = vector([make_env(i) for i in range(3)])\n", "env = 'CartPole-v1'\n"])
def test_a_list_of_environments_is_no_single_one(text):
    assert single_env(ast.parse(text), "made") is None
