import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from palaestra.cli import main as main_module
from palaestra.cli.command import Command, Group
from palaestra.cli.main import BROKEN_PIPE, INTERRUPTED, VERBS, load_verb, main

HEAVY = ("torch", "pydantic", "rich", "gymnasium", "numpy", "ruamel.yaml", "argparse")


def palaestra(*words, **settings):
    return subprocess.run([sys.executable, "-m", "palaestra", *words], capture_output=True, text=True, **settings)


def test_help_imports_nothing_heavy():
    script = (
        "import sys; from palaestra.cli.main import main; code = main(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")
    assert all(verb in done.stdout for verb in VERBS)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["train", "cartpole", "totl_steps=5"], 2, "Did you mean 'total_steps'?"),
        (["trian"], 2, "Did you mean 'train'?"),
        (["train", "carpole"], 3, "Did you mean 'cartpole'?"),
        (["eval", "nobody"], 3, "No run named 'nobody'"),
        (["--verison"], 2, "No flag named '--verison'"),
    ],
)
def test_the_real_command_leaves_with_the_right_code_and_one_clear_line(words, code, said, tmp_path):
    done = palaestra(*words, cwd=tmp_path)
    assert done.returncode == code
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []  # a refused request leaves nothing behind


def test_wrong_settings_are_refused_before_torch_is_loaded(tmp_path):
    script = (
        "import sys; from palaestra.cli.main import main; code = main(['train', 'cartpole', 'totl_steps=5']); "
        "print('torch' in sys.modules); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (2, "False")


def test_version_is_the_one_of_the_project(call):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert call("--version") == (0, f"palaestra {project['version']}\n", "")


def test_a_start_is_not_held_up_by_searches_for_cycles_among_its_modules(tmp_path):
    code = (
        "import gc; from palaestra.cli.main import main; before = gc.get_stats()[0]['collections'];"
        "main(['train', 'cartpole', '--dry-run']); print(gc.get_stats()[0]['collections'] - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert int(done.stdout.split()[-1]) <= 3, "with Python's own limit there are dozens"


def test_no_words_are_a_call_for_help(call):
    assert call()[1] == call("--help")[1] != ""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_command_and_a_help_that_ends_in_three_examples(verb, call):
    assert isinstance(load_verb(verb), Command | Group)
    code, out, _ = call(verb, "-h")
    assert code == 0
    assert [line.startswith("  palaestra ") for line in out.splitlines()[-3:]] == [True] * 3


def test_sim_is_eval():
    assert main_module.load_verb("sim") is main_module.load_verb("eval")


def test_an_interrupt_leaves_with_130(monkeypatch, call):
    def interrupted(_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module, "load_verb", interrupted)
    code, out, err = call("train")
    assert (code, out) == (INTERRUPTED, "")
    assert "interrupted" in err


def test_a_defect_of_ours_keeps_its_traceback(monkeypatch):
    def broken(_arguments):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(main_module, "load_verb", broken)
    with pytest.raises(ZeroDivisionError):
        main(["train"])


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    command = f"{sys.executable} -m palaestra config schema; echo code $? >&2"
    done = subprocess.run(["bash", "-c", f"( {command} ) | head -c 10"], capture_output=True, text=True, cwd=tmp_path)
    assert len(done.stdout) == 10
    assert "Traceback" not in done.stderr
    assert done.stderr.strip() in {f"code {BROKEN_PIPE}", "code 0"}  # 0: all was written before the reader left


@pytest.mark.fault("W11")
@pytest.mark.parametrize(
    "words",
    [
        ["train", "\x1b[31mred"],
        ["\x1b[31mred"],
        ["eval", "\x1b[31mred"],
        ["train", "cartpole", "\x1b[31mred=1"],
        ["train", "cartpole", "--\x1b[31mred"],
        ["train", "cartpole", "total_steps=\x1b[31m"],
    ],
)
def test_an_error_about_a_text_with_control_characters_shows_them_as_escapes(words, call):
    code, out, err = call(*words)
    assert code in {2, 3}
    assert r"\x1b[31m" in err
    assert (out + err).replace("\n", "").isprintable()
