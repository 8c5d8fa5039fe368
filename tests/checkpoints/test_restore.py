"""Sidecars that ask for more than their weights hold are refused before anything of that size is built."""

import json
import subprocess
import sys
import textwrap
import threading

import pytest
import torch
from pydantic import BaseModel
from torch import nn

from palaestra.checkpoints.restore import fill_module, restore_agent
from palaestra.checkpoints.weights import policy_to_bytes, weights_to_bytes
from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import DamagedFile
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec
from palaestra.policies.base import Policy
from palaestra.policies.build import build_policy

CARTPOLE = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))
PICTURES = EnvInterface(BoxSpec((24, 11, 11), "uint8", (0.0,), (255.0,)), DiscreteSpec(9))
TOKENS = EnvInterface(BoxSpec((200, 3), "uint8", (0.0,), (255.0,)), DiscreteSpec(9))
CELLS = BoxSpec((11, 11), "uint8", (0.0,), (21.0,))
HUGE_CELLS = BoxSpec((2**15, 2**15), "uint8", (0.0,), (21.0,))
COUNTS = BoxSpec((9,), "uint8", (0.0,), (255.0,))
ARENA = EnvInterface(DictSpec((("cells", CELLS), ("self", COUNTS))), DiscreteSpec(6))
HUGE = 2**40


class Table(Policy):
    """A class of the user's own: it derives what it does not save, and needs real numbers to do so."""

    class Settings(BaseModel):
        width: int = 8

    def __init__(self, interface, settings):
        super().__init__()
        self.layer = nn.Linear(4, settings.width)
        self.register_buffer("table", torch.zeros(1 << 20), persistent=False)
        self.scale = float(torch.ones(3).sum().item())

    def forward(self, observation, memory, starts=None):
        raise NotImplementedError


def graph(node):
    return PolicyConfig(
        graph=textwrap.dedent(f"""\
            schema_version: 1
            nodes:
              flat: {{type: vector, source: observation}}
              hidden: {node}
              action: {{type: action_head, source: hidden}}
              value: {{type: value_head, source: hidden}}
            """)
    )


def saved(config, interface):
    torch.manual_seed(0)
    return policy_to_bytes(build_policy(config, interface))


@pytest.mark.parametrize(
    ("config", "interface"),
    [
        (PolicyConfig(graph="mlp", normalize_observations=True, normalize_returns=True), CARTPOLE),
        (PolicyConfig(graph="cnn"), EnvInterface(BoxSpec((3, 84, 84), "uint8", (0.0,), (255.0,)), DiscreteSpec(4))),
        (PolicyConfig(graph="fast"), PICTURES),
        (PolicyConfig(graph="attention"), TOKENS),
        (PolicyConfig(graph="memory"), CARTPOLE),
        (PolicyConfig(graph="grid"), ARENA),
        (PolicyConfig(graph="mlp", normalize_observations=True), EnvInterface(BoxSpec((3000,)), BoxSpec((2,)))),
        (graph("{type: mingru, source: flat, size: 32}"), CARTPOLE),
        (graph("{type: residual, source: flat, blocks: 3}"), CARTPOLE),
        (PolicyConfig(module=f"{__name__}:Table"), CARTPOLE),
    ],
)
def test_every_policy_comes_back_as_it_was_saved(config, interface):
    data = saved(config, interface)
    restored = restore_agent(config, interface, data, "here")
    assert policy_to_bytes(restored) == data


HOSTILE = {
    "wide": (PolicyConfig(graph="mlp", settings={"hidden": [20000, 20000]}), CARTPOLE),
    "beyond any memory": (PolicyConfig(graph="mlp", settings={"hidden": [2_000_000_000, 2_000_000_000]}), CARTPOLE),
    "beyond 64 bits": (PolicyConfig(graph="mlp", settings={"hidden": [2**63]}), CARTPOLE),
    "deep": (PolicyConfig(graph="mlp", settings={"hidden": [64] * 3500}), CARTPOLE),
    "observation": (PolicyConfig(graph="mlp"), EnvInterface(BoxSpec((HUGE,)), DiscreteSpec(2))),
    "normaliser": (
        PolicyConfig(graph="mlp", normalize_observations=True),
        EnvInterface(BoxSpec((2**28,)), DiscreteSpec(2)),
    ),
    "actions": (PolicyConfig(graph="mlp"), EnvInterface(BoxSpec((4,)), DiscreteSpec(HUGE))),
    "negative": (PolicyConfig(graph="mlp"), EnvInterface(BoxSpec((4,)), DiscreteSpec(-1))),
    "choices": (PolicyConfig(graph="mlp"), EnvInterface(MultiDiscreteSpec((2**31,) * 100), DiscreteSpec(2))),
    "blocks": (graph(f"{{type: residual, source: flat, blocks: {10**9}}}"), CARTPOLE),
    "expansion": (graph("{type: residual, source: flat, expansion: 1.0e+300}"), CARTPOLE),
    "lstm": (graph("{type: lstm, source: flat, size: 1000000}"), CARTPOLE),
    "made before it is registered": (
        graph("{type: mingru, source: flat, size: 30000}"),
        EnvInterface(BoxSpec((30000,)), DiscreteSpec(2)),
    ),
    "channels": (PolicyConfig(graph="fast"), EnvInterface(BoxSpec((HUGE, 11, 11), "uint8"), DiscreteSpec(9))),
    "queries": (PolicyConfig(graph="attention", settings={"queries": 10**9}), TOKENS),
    "cells": (
        PolicyConfig(graph="grid"),
        EnvInterface(DictSpec((("cells", HUGE_CELLS), ("self", COUNTS))), DiscreteSpec(6)),
    ),
    "own class": (PolicyConfig(module=f"{__name__}:Table", settings={"width": 2**28}), CARTPOLE),
}


@pytest.mark.fault("C14")
@pytest.mark.parametrize("name", HOSTILE)
def test_what_the_weights_do_not_hold_is_not_built(name):
    config, interface = HOSTILE[name]
    data = saved(PolicyConfig(graph="mlp"), CARTPOLE)
    with pytest.raises(DamagedFile, match=r"^here: .*(do not fit|cannot be built)"):
        restore_agent(config, interface, data, "here")


@pytest.mark.fault("C14")
@pytest.mark.slow
def test_a_hostile_sidecar_costs_two_seconds_and_64_megabytes_at_most(tmp_path, figure):
    """From the outside: another process opens each as `load_policy` would, and its largest size is the system's."""
    program = tmp_path / "costs.py"
    program.write_text(
        textwrap.dedent(f"""\
            import json, resource, sys, time
            sys.path.insert(0, {str(__file__).rpartition("/")[0]!r})
            import test_restore as these
            from palaestra.checkpoints.restore import restore_agent

            def largest():
                return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

            data = these.saved(these.PolicyConfig(graph="mlp"), these.CARTPOLE)
            restore_agent(these.PolicyConfig(graph="mlp"), these.CARTPOLE, data, "here")
            costs = {{}}
            for name, (config, interface) in these.HOSTILE.items():
                before, began = largest(), time.process_time()
                try:
                    restore_agent(config, interface, data, "here")
                except these.DamagedFile:
                    costs[name] = (time.process_time() - began, largest() - before)
            print(json.dumps(costs))
            """)
    )
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    costs = json.loads(ended.stdout)
    assert set(costs) == set(HOSTILE)
    seconds, megabytes = map(max, zip(*costs.values(), strict=True))
    figure("dearest hostile sidecar, CPU s", seconds)
    figure("largest hostile sidecar, MB", megabytes)
    assert seconds < 2
    assert megabytes < 64


def test_other_threads_build_what_they_like_meanwhile():
    data, config = saved(PolicyConfig(graph="mlp"), CARTPOLE), PolicyConfig(module=f"{__name__}:Busy")
    built = []

    def build_elsewhere():
        built.append(nn.Linear(512, 1024))

    Busy.meanwhile = staticmethod(build_elsewhere)
    with pytest.raises(DamagedFile):
        restore_agent(config, CARTPOLE, data, "here")
    assert built[0].weight.shape == (1024, 512)


class Busy(Table):
    def __init__(self, interface, settings):
        super().__init__(interface, settings)
        other = threading.Thread(target=self.meanwhile)
        other.start()
        other.join()
        self.too_large = nn.Linear(1 << 14, 1 << 12)


def test_nothing_of_the_bounds_is_left_behind_after_a_refusal():
    with pytest.raises(DamagedFile):
        restore_agent(*HOSTILE["wide"], saved(PolicyConfig(graph="mlp"), CARTPOLE), "here")
    assert nn.Linear(1000, 1000).weight.nbytes == 4_000_000


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda weights: weights.pop("0.bias"), "'0.bias' is missing"),
        (lambda weights: weights.update(extra=torch.zeros(1)), "'extra' is not expected"),
        (lambda weights: weights.update({"0.bias": torch.zeros(3)}), r"'0.bias' is F32 \[3\], expected F32 \[2\]"),
        (lambda weights: weights.update({"0.bias": weights["0.bias"].view(torch.int32)}), "'0.bias' is I32"),
        (lambda weights: weights["0.weight"].fill_(float("nan")), "'0.weight' hold NaN"),
        (lambda weights: weights["0.weight"].fill_(float("inf")), "'0.weight' hold NaN or infinity"),
        (lambda weights: weights["1.running_var"].fill_(float("nan")), "'1.running_var' hold NaN"),
    ],
)
def test_weights_that_do_not_fit_leave_the_module_as_it_was(change, named):
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = weights_to_bytes(module.state_dict())
    weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    change(weights)
    with pytest.raises(DamagedFile, match=f"^here: .*{named}"):
        fill_module(module, weights, "here")
    assert weights_to_bytes(module.state_dict()) == before
