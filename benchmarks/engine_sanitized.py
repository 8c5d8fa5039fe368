"""The engine's tests with another build of the engine, one that was compiled with sanitizers.

    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 \
      python benchmarks/engine_sanitized.py /tmp/asan/learner*.so [pytest's words]

docs/engines.md says how such a build is made. Python's own memory is not watched, so leaks are not looked for.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palaestra.training import engines

if TYPE_CHECKING:
    from types import ModuleType

NAME = "palaestra.training.engines.learner"
TESTS = Path(__file__).parents[1] / "tests" / "training" / "engines"


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    taken = take(sys.argv[1])
    code = pytest.main(["-n", "0", "-p", "no:cacheprovider", "-q", str(TESTS), *sys.argv[2:]])
    if sys.modules[NAME] is not taken:
        print("Another build took its place.")
        return 1
    print(f"{taken.__file__}: kernels {', '.join(taken.kernel_names())}")
    return int(code)


def take(path: str) -> ModuleType:
    """From here on it is the engine that everybody in this process imports."""
    loader = ExtensionFileLoader(NAME, path)
    spec = spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None, "a loader was given"
    module = module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[NAME] = module
    engines.learner = module  # type: ignore[attr-defined]
    return module


if __name__ == "__main__":
    sys.exit(main())
