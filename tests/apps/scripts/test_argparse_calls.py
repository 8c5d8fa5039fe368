import ast

from palaestra.apps.scripts.argparse_calls import argparse_arguments

SOURCE = """
parser.add_argument("--exp-name", type=str, default=os.path.basename(__file__).rstrip(".py"), help="the name")
parser.add_argument("--learning-rate", type=float, default=2.5e-4, help="the\\n rate")
parser.add_argument("--track", type=lambda x: bool(strtobool(x)), default=False, nargs="?", const=True)
parser.add_argument("--target-kl", type=float, default=None)
parser.add_argument("--mode", choices=["a", "b"], default="a")
parser.add_argument("--sizes", type=int, nargs="+", default=[1])
parser.add_argument("--path", required=True)
parser.add_argument("--verbose", action="store_true")
parser.add_argument("--no-cuda", action="store_false", dest="cuda")
parser.add_argument("--render", action=argparse.BooleanOptionalAction, default=True)
parser.add_argument("--version", action="version")
parser.add_argument("positional")
"""


def test_flags_of_an_older_script_are_read_with_types_and_defaults():
    found = {one.name: one for one in argparse_arguments(ast.parse(SOURCE), "old")}
    assert {name: one.default for name, one in found.items()} == {
        "exp_name": "old",
        "learning_rate": 2.5e-4,
        "track": False,
        "target_kl": None,
        "mode": "a",
        "sizes": [1],
        "path": None,
        "verbose": False,
        "cuda": True,
        "render": True,
    }
    assert (found["verbose"].words(True), found["verbose"].words(False)) == (["--verbose"], [])
    assert found["cuda"].words(False) == ["--no-cuda"]
    assert found["render"].words(False) == ["--no-render"]
    assert found["track"].type.name == "bool"
    assert found["track"].words(True) == ["--track", "True"]
    assert found["target_kl"].type.is_optional
    assert found["learning_rate"].description == "the rate"
    assert not found["path"].has_default
