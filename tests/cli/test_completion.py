import os
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.cli.completion import SCRIPTS


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_shell_gets_a_script_that_asks_us(call, shell):
    code, out, _ = call("completion", shell)
    assert code == 0
    assert "palaestra --complete" in out


def test_an_unknown_shell_is_reported_with_the_nearest(call):
    code, _, err = call("completion", "bsh")
    assert code == 2
    assert "Did you mean 'bash'?" in err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("palaestra tra", ["train"]),
        ("palaestra train cartpole ppo.gam", ["ppo.gamma="]),
        ("palaestra train loggers.csv=t", ["true"]),  # bash has 'loggers.csv=' already
        ("palaestra config ", ["keys", "show", "schema"]),
    ],
)
def test_bash_itself_completes(line, expected, tmp_path):
    script = f"""
compopt() {{ :; }}  # only works while bash is completing
source <(palaestra completion bash)
COMP_LINE={line!r} COMP_POINT={len(line)}
_palaestra
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PATH": path}
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")
