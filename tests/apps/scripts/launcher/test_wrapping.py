import ast
import types

import pytest

from palaestra.apps.scripts.launcher.wrapping import WRAPPING, single_env, vector_wrapping


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
