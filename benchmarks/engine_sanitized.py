"""The engine's tests with another build of the engine, and of Arena's worlds, compiled with sanitizers.

    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 \
      python benchmarks/engine_sanitized.py /tmp/asan/learner*.so /tmp/asan/core*.so [pytest's words]

docs/engines.md says how such a build is made. Python's own memory is not watched, so leaks are not looked for.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palaestra.apps import arena
from palaestra.training import engines

if TYPE_CHECKING:
    from types import ModuleType

ROOMS = {"learner": engines, "core": arena}  # where the rest of the house looks for each
TESTS = Path(__file__).parents[1] / "tests" / "training" / "engines"


def main() -> int:
    builds = [word for word in sys.argv[1:] if word.endswith(".so")]
    if not builds:
        print(__doc__)
        return 2
    taken = [take(path) for path in builds]
    words = [word for word in sys.argv[1:] if word not in builds]
    code = pytest.main(["-n", "0", "-p", "no:cacheprovider", "-q", str(TESTS), *words])
    for module in taken:
        if sys.modules[module.__name__] is not module:
            print("Another build took its place.")
            return 1
        kernels = f": kernels {', '.join(module.kernel_names())}" if hasattr(module, "kernel_names") else ""
        print(f"{module.__file__}{kernels}")
    return int(code)


def take(path: str) -> ModuleType:
    """From here on it is the engine that everybody in this process imports."""
    own = Path(path).name.split(".")[0]
    name = f"{ROOMS[own].__name__}.{own}"
    loader = ExtensionFileLoader(name, path)
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "a loader was given"
    module = module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    setattr(ROOMS[own], own, module)
    return module


if __name__ == "__main__":
    sys.exit(main())
