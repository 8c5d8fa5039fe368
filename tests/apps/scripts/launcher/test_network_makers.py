import ast

import pytest

from palaestra.apps.scripts.launcher.network_makers import NETWORK_MAKER, assigned_names, network_makers


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
