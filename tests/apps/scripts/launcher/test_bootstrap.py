"""By its path, as it is used: in an interpreter that has no site-packages at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

from palaestra.apps.scripts.launcher import bootstrap


def test_a_script_runs_where_nothing_is_installed(tmp_path):
    script = tmp_path / "room" / "made.py"
    script.parent.mkdir()
    (tmp_path / "beside.py").write_text("VALUE = 5\n")
    script.write_text("import sys, beside\nglobal_step = beside.VALUE\nprint(sys.argv[1:], __name__)\nsys.exit(3)\n")
    reading, writing = os.pipe()
    spec = {
        "script": str(script),
        "argv": ["--seed", "1"],
        "save_seconds": 0,
        "outbox": str(tmp_path),
        "parent": os.getpid(),
        "descriptor": writing,
        "frame_buffer": None,
    }
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(Path(bootstrap.__file__)), json.dumps(spec)],
        capture_output=True,
        text=True,
        pass_fds=(writing,),
    )
    os.close(writing)
    messages = [one for line in os.read(reading, 1 << 16).splitlines() for one in json.loads(line)]
    os.close(reading)
    assert (done.stdout, done.stderr, done.returncode) == ("['--seed', '1'] __main__\n", "", 3)
    assert messages[0][:2] == ["adapted", ["tyro is not installed; a small substitute reads the arguments"]]
    assert messages[-1] == ["ended", "failed", "the script exited with 3", 5, 0]
