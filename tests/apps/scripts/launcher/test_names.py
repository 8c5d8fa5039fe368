import types

from palaestra.apps.scripts.launcher.names import arguments_in, names_of

PROGRAM = """
size = 1
def inner(look):
    size = 3
    return look()
def main(look):
    agent, size = "network", 2
    return inner(look)
"""


def load():
    module = types.ModuleType("made")
    types.FunctionType(compile(PROGRAM, "made.py", "exec"), vars(module))()
    return module


def test_globals_are_known_and_what_functions_at_work_have():
    script = load()
    names = script.main(lambda: names_of(vars(script)))
    assert (names["agent"], names["size"]) == ("network", 2)
    assert "PROGRAM" not in names
    assert names_of(vars(script))["size"] == 1


def test_arguments_go_by_several_names():
    args = types.SimpleNamespace(seed=1)
    assert arguments_in({"cfg": args}) is args
    assert arguments_in({"args": args, "config": types.SimpleNamespace()}) is args
    assert arguments_in({"args": [1, 2], "cfg": "text"}) is None
