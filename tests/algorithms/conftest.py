"""Processes that train together, as in the tests of training."""

from tests.training.conftest import on_one_machine, together

__all__ = ["on_one_machine", "together"]
