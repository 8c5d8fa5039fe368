"""Modules and training states as a test's script uses them: tests must not need flax."""

from . import core

__all__ = ["core"]
