"""`python start.py DESCRIPTOR PARENT FRAME_BUFFER`: starts a render process in any interpreter.

Run by path, so that the interpreter needs no installed Palaestra: the directory is loaded as a package of another name.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

PACKAGE = "palaestra_rendering"  # no script has a module of this name


def load_package(folder: Path) -> None:
    """Loads the package without changing the import path of the environment's own modules."""
    sys.path[:] = [entry for entry in sys.path if entry != str(folder)]
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None, "a file that exists has a spec"
    assert spec.loader is not None, "and a loader"
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    load_package(Path(__file__).resolve().parent)
    sys.exit(importlib.import_module(f"{PACKAGE}.render_process").main(sys.argv[1:]))
