from typing import Any, NamedTuple


class ScaleByAdamState(NamedTuple):
    count: Any
    mu: Any


class GradientTransformation(NamedTuple):
    init: Any
    update: Any


def adam(learning_rate):
    return GradientTransformation(lambda params: (ScaleByAdamState(0, params), ()), lambda grads: learning_rate * grads)
