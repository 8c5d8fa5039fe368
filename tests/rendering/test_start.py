import subprocess
import sys
from pathlib import Path

from palaestra.rendering import start


def test_the_package_is_loaded_beside_whatever_the_environment_imports():
    folder = Path(start.__file__).parent
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import start; from pathlib import Path\n"
        f"start.load_package(Path({str(folder)!r}))\n"
        "import palaestra_rendering.frame_format as format\n"
        f"print(format.MAX_SLOTS, {str(folder)!r} in sys.path, 'palaestra' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1024 False False\n", "")


def test_a_render_process_whose_parent_is_gone_ends_at_once(tmp_path):
    """Here the parent is said to be process 1, which did not start it."""
    done = subprocess.run([sys.executable, start.__file__, "0", "1", str(tmp_path / "none")], timeout=60)
    assert done.returncode == 0
