"""`python start.py JSON`: become the script that the JSON names; `python start.py play FD`: play a checkpoint of one;
`python start.py match FD`: the same step by step.

Run by path, in whatever interpreter.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path

ROOT = "palaestra_injected"  # no script has a module of this name
PACKAGE = f"{ROOT}.apps.scripts.launcher"

MODES = {"play": "play", "match": "match"}


def load_launcher() -> None:
    """Our source folder under a name of its own, so that nothing is put on the script's path and nothing of ours is
    imported but what stands beside the launcher and in `rendering`, which need only NumPy."""
    parts = PACKAGE.split(".")
    folder = Path(__file__).resolve().parents[len(parts) - 1]
    for depth in range(1, len(parts)):
        name = ".".join(parts[:depth])
        package = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*parts[1:depth]))]
        sys.modules[name] = package
    importlib.import_module(PACKAGE)


if __name__ == "__main__":
    load_launcher()
    if sys.argv[1] in MODES:
        importlib.import_module(f"{PACKAGE}.{MODES[sys.argv[1]]}").main(int(sys.argv[2]))
    else:
        importlib.import_module(f"{PACKAGE}.run").run(json.loads(sys.argv[1]))
