from pathlib import Path

import pytest

from palaestra.apps.scripts.script import ARGPARSE, NO_ARGUMENTS, TYRO, read_script
from palaestra.core.errors import NotFound, UsageError

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture
def write(tmp_path):
    def write_script(text):
        path = tmp_path / "made.py"
        path.write_text(text)
        return path

    return write_script


def test_the_arguments_of_a_script_are_read_without_importing_it(write):
    path = write(
        "import sys\nraise SystemExit('it was run')\n"
        "class Args:\n    gamma: float = 0.99\n    '''the\n    discount'''\n    steps: int = 1e3\n    mark: int = f()\n"
    )
    script = read_script(path)
    assert script.style == TYRO
    gamma, steps, mark = script.arguments
    assert (gamma.default, gamma.description, gamma.flag) == (0.99, "the discount", "--gamma")
    assert steps.default == 1000
    assert type(steps.default) is int
    assert (mark.is_known, mark.has_default, mark.default_text) == (False, True, "f()")


def test_what_the_script_fills_in_itself_is_not_requested():
    script = read_script(SCRIPTS / "ppo.py")
    derived = {one.name for one in script.arguments if one.is_derived}
    assert derived == {"batch_size", "num_iterations"}
    assert "gamma" in {one.name for one in script.settable_arguments}


def test_a_number_whose_default_is_none_is_optional():
    target_kl = next(one for one in read_script(SCRIPTS / "ppo.py").arguments if one.name == "target_kl")
    assert target_kl.type.is_optional
    assert target_kl.default is None
    assert target_kl.is_known


def test_the_class_that_tyro_is_given_counts_and_its_bases_too(write):
    path = write(
        "class Base:\n    seed: int = 1\n    gamma: float = 0.9\nclass Mine(Base):\n    gamma: float = 0.5\n"
        "class Args:\n    other: int = 0\nargs = tyro.cli(Mine)\n"
    )
    assert {one.name: one.default for one in read_script(path).arguments} == {"seed": 1, "gamma": 0.5}


def test_older_scripts_and_scripts_without_arguments_are_distinguished(write):
    assert read_script(write("p.add_argument('--seed', type=int, default=1)")).style == ARGPARSE
    assert read_script(write("print(1)")).style == NO_ARGUMENTS


def test_only_imports_that_cannot_be_avoided_are_needed(write):
    path = write("import jax.numpy as jnp\nfrom torch import nn\nif x:\n    import wandb\ndef f():\n    import av\n")
    assert read_script(path).imports == ("jax", "torch")


def test_a_syntax_error_is_reported_with_its_line(write):
    with pytest.raises(UsageError, match=r"made\.py is not Python: .*line 2"):
        read_script(write("x = 1\ndef (:\n"))


def test_a_path_that_leads_nowhere_or_to_a_folder_is_refused(tmp_path):
    with pytest.raises(NotFound, match="no script"):
        read_script(tmp_path / "absent.py")
    with pytest.raises(UsageError, match="is a directory"):
        read_script(tmp_path)
    with pytest.raises(UsageError, match="File name too long"):
        read_script(tmp_path / ("a" * 300))
    with pytest.raises(NotFound, match="no script"):
        read_script(Path("~nobody-of-this-name/ppo.py"))


@pytest.mark.parametrize("data", [b"\x00\x01", b"\xff\xfe\x00 x = 1"])
def test_a_file_that_is_no_text_is_refused_by_name(tmp_path, data):
    path = tmp_path / "weights.py"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"weights\.py is not Python"):
        read_script(path)
