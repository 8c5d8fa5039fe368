from __future__ import annotations

import pytest

from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.components.base import Signal
from palaestra.policies.components.registry import SHIPPED

INTERFACE = EnvInterface(BoxSpec((4,)), DiscreteSpec(3))


@pytest.fixture
def make():
    """`make("linear", [64], size=3)`: a component for inputs of these shapes, or for signals, as a graph would."""

    def build(kind, *inputs, interface=INTERFACE, **settings):
        signals = tuple(
            each if isinstance(each, Signal) else Signal("abc"[index], tuple(each)) for index, each in enumerate(inputs)
        )
        component = SHIPPED[kind]
        return component(signals, component.Settings(**settings), interface)

    return build
