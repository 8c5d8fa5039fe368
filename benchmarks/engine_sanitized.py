"""Runs the engine's tests with builds of the engine and of Arena's worlds that use sanitizers.

    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 \
      python benchmarks/engine_sanitized.py /tmp/asan/native_learner*.so /tmp/asan/native_core*.so [arguments of pytest]

docs/engines.md describes how to make such a build. Leaks are not detected, because Python's own memory is not tracked.
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

PACKAGES = {"native_learner": engines, "native_core": arena}
TESTS = Path(__file__).parents[1] / "tests" / "training" / "engines"


def main() -> int:
    builds = [word for word in sys.argv[1:] if word.endswith(".so")]
    if not builds:
        print(__doc__)
        return 2
    modules = [load(path) for path in builds]
    words = [word for word in sys.argv[1:] if word not in builds]
    code = pytest.main(["-n", "0", "-p", "no:cacheprovider", "-q", str(TESTS), *words])
    for module in modules:
        if sys.modules[module.__name__] is not module:
            print(f"Another build of {module.__name__} was imported.")
            return 1
        kernels = f": kernels {', '.join(module.kernel_names())}" if hasattr(module, "kernel_names") else ""
        print(f"{module.__file__}{kernels}")
    return int(code)


def load(path: str) -> ModuleType:
    """Import the build in place of the installed module."""
    own = Path(path).name.split(".")[0]
    name = f"{PACKAGES[own].__name__}.{own}"
    loader = ExtensionFileLoader(name, path)
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "the loader is given"
    module = module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    setattr(PACKAGES[own], own, module)
    return module


if __name__ == "__main__":
    sys.exit(main())
