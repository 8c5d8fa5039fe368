import subprocess
import sys


def test_python_dash_m_palaestra_is_the_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "palaestra", "--version"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0
    assert done.stdout.startswith("palaestra ")
