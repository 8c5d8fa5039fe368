"""The commands as typed."""

import json
import shlex
import subprocess
import sys

import pytest

from palaestra.apps.matmul import commands
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.scheme_files import encode_scheme
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.cli.main import main

VERBS = {
    "verify": commands.VERIFY,
    "discover": commands.DISCOVER,
    "discoveries": commands.DISCOVERIES,
    "bench": commands.BENCH,
}


@pytest.mark.parametrize("example", [example for verb in VERBS.values() for example in verb.examples])
def test_examples_run(example, strassen, workplace, capsys):
    (workplace / "strassen.json").write_text(json.dumps(encode_scheme(strassen)))
    Archive(workplace / "runs").add(verify(strassen), Provenance("", "brought", 0, 0, 0.0, 0.0, 0.0))
    code = main(shlex.split(example)[1:])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    if "--json" in example:
        assert json.loads(captured.out)


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help(verb, capsys):
    assert main([verb, "-h"]) == 0
    assert VERBS[verb].examples[0] in capsys.readouterr().out


def test_help_imports_nothing_heavy():
    script = (
        "import sys; import palaestra.apps.matmul.commands; "
        "print([name for name in ('numpy', 'torch', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_discover_does_not_import_torch(workplace):
    script = (
        "import sys; from palaestra.cli.main import main; "
        "code = main(['discover', '2x2x2', 'seconds=1', '--json']); print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == "False"
