"""The small run that evaluation's tests judge too."""

import importlib.util
import sys
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location(
    "evaluation_conftest", Path(__file__).parents[1] / "evaluation" / "conftest.py"
)
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE
_SPEC.loader.exec_module(_MODULE)

trained_run = _MODULE.trained_run
