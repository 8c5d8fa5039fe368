"""The few functions of jax that a test's script calls, on NumPy: tests must not need jax."""

import functools

import numpy as np

from . import numpy, random, tree_util

__all__ = ["Array", "device_get", "eval_shape", "jit", "numpy", "random", "tree_util"]

Array = np.ndarray


def jit(function):
    @functools.wraps(function)
    def compiled(*arguments):
        return function(*arguments)

    return compiled


def device_get(value):
    return np.asarray(value)


def eval_shape(function, *arguments):
    return function(*arguments)
