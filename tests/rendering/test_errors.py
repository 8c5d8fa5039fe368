"""The package needs nothing but the standard library and NumPy."""

import subprocess
import sys
from pathlib import Path

import palaestra.rendering
from palaestra.rendering.errors import FrameBufferNotFound, InvalidRequest

FOLDER = Path(palaestra.rendering.__file__).parent
ALONE = """
import importlib, sys
sys.path.insert(0, {folder!r})
import start
from pathlib import Path
start.load_package(Path({folder!r}))
for name in {names!r}:
    importlib.import_module("palaestra_rendering." + name)
allowed = {{*sys.stdlib_module_names, "numpy", "palaestra_rendering", "start", "__main__"}}
print(sorted({{name.partition(".")[0] for name in sys.modules}} - allowed - before))
"""


def test_every_module_loads_by_its_path_with_nothing_but_numpy():
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in {"__init__", "start"})
    code = "import sys; before = {name.partition('.')[0] for name in sys.modules}\n"
    code += ALONE.format(folder=str(FOLDER), names=names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_no_module_needs_a_python_that_is_newer_than_the_scripts_that_are_watched():
    code = "import ast, sys\nfor path in sys.argv[1:]: ast.parse(open(path).read(), feature_version=(3, 8))"
    subprocess.run([sys.executable, "-c", code, *map(str, FOLDER.glob("*.py"))], check=True)


def test_an_error_has_a_message_and_a_hint():
    error = FrameBufferNotFound("There is none.", "Make one.")
    assert (str(error), error.message, error.hint) == ("There is none. Make one.", "There is none.", "Make one.")
    assert isinstance(error, OSError)
    assert str(InvalidRequest("Too many.")) == "Too many."
