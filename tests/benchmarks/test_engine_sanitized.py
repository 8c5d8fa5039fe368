import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.training.engines import native_engine

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")
def test_the_build_that_is_named_is_the_one_that_is_tested(tmp_path):
    """A copy of the usual one, in a process of its own: a module can be taken only once."""
    own = Path(native_engine.native_learner.__file__)
    copy = Path(shutil.copy(own, tmp_path / own.name))
    arguments = [sys.executable, str(BENCHMARKS / "engine_sanitized.py"), str(copy), "-k", "threads_changes_no_bit"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{copy}: kernels " in done.stdout


def test_without_a_build_it_says_how_to_make_one():
    arguments = [sys.executable, str(BENCHMARKS / "engine_sanitized.py")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "docs/engines.md" in done.stdout
