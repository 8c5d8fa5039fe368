"""`python begin.py JSON`: become the script that the JSON names; `python begin.py play FD`: play a checkpoint of one;
`python begin.py paint FD`: draw for one that trains.

Run by path, in whatever interpreter.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path

PACKAGE = "palaestra_launcher"  # a name that no script's own module has

HELPERS = {"play": "playing", "paint": "painting"}


def load_launcher() -> None:
    """This folder as a package of its own name, so that nothing is put on the script's path."""
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None, "a file that is there has a spec"
    assert spec.loader is not None, "and a loader"
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    load_launcher()
    if sys.argv[1] in HELPERS:
        importlib.import_module(f"{PACKAGE}.{HELPERS[sys.argv[1]]}").main(int(sys.argv[2]))
    else:
        importlib.import_module(f"{PACKAGE}.running").run(json.loads(sys.argv[1]))
