"""Entry point of the launcher, run by path in any interpreter.

`python bootstrap.py JSON` runs a script (`LaunchSpec.for_launcher` writes the JSON); `python bootstrap.py play FD`
plays episodes with a checkpoint; `python bootstrap.py match FD` plays them step by step.
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
    """Makes the source folder importable under another name without changing the script's `sys.path`.

    Only the launcher and `rendering` are imported; they need nothing but NumPy.
    """
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
