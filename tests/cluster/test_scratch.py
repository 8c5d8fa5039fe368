import signal
import subprocess
import sys
from pathlib import Path

from palaestra.cluster.scratch import ScratchDirectory, remove_abandoned

WAITS = """
import signal, sys
from pathlib import Path
from palaestra.cluster.scratch import ScratchDirectory
scratch = ScratchDirectory(Path(sys.argv[1]))
print(scratch.path, flush=True)
signal.pause()
"""


def test_a_scratch_directory_is_private_and_gone_when_it_is_closed(tmp_path):
    scratch = ScratchDirectory(tmp_path)
    (scratch.path / "file").touch()
    assert scratch.path.stat().st_mode & 0o777 == 0o700
    scratch.close()
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(tmp_path):
    living = ScratchDirectory(tmp_path)
    with subprocess.Popen([sys.executable, "-c", WAITS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        path = process.stdout.readline().strip()
        remove_abandoned(tmp_path)
        assert Path(path).is_dir()
        process.send_signal(signal.SIGKILL)
    remove_abandoned(tmp_path)
    assert [one.name for one in sorted(tmp_path.iterdir()) if one.is_dir()] == [living.path.name]
    living.close()
