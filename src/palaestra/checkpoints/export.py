"""A policy for other programs: its bare weights, or an ONNX graph that was compared with the policy it came from."""

from __future__ import annotations

import importlib
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from palaestra.checkpoints.durable import replace_file
from palaestra.checkpoints.files import model_name
from palaestra.checkpoints.loading import load_policy
from palaestra.checkpoints.targets import find_target
from palaestra.checkpoints.weights import weights_from_bytes
from palaestra.core.errors import MissingExtra, RunFailed, UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, MultiDiscreteSpec, SpaceSpec
from palaestra.policies.observations import storage_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.config.policy import Role
    from palaestra.policies.agent import Agent

TOLERANCE = 1e-4
EXAMPLE_BATCH = 3  # not 1: an axis of one is taken for a constant
UNBOUNDED = 1e6  # a bound beyond is none


def export_state_dict(target: str | Path, out: str | Path, runs_root: Path | None = None) -> Path:
    """The weights alone, as .safetensors, or as a .pt that `torch.load(..., weights_only=True)` reads."""
    path = _free_path(out, (".safetensors", ".pt"))
    opened = find_target(target, runs_root).open()
    data = opened.parts[model_name(opened.checkpoint.epoch)]
    if path.suffix == ".pt":
        stream = BytesIO()
        torch.save(weights_from_bytes(data, str(opened.checkpoint.path)), stream)
        data = stream.getvalue()
    replace_file(path.parent, path.name, data)
    return path


def export_onnx(target: str | Path, out: str | Path, runs_root: Path | None = None) -> Path:
    """An ONNX graph from observation [B, …] (and memory) to the most likely action, its value and the next memory.

    Written only after ONNX's own reference evaluator has given the same outputs as the policy.
    """
    path = _free_path(out, (".onnx",))
    onnx = _need("onnx")
    _need("onnxscript")
    loaded = load_policy(target, runs_root)
    player = OnnxPlayer(loaded.policy, loaded.checkpoint.policy.get("role", "actor_critic")).eval()
    inputs = player.example_inputs()
    model = _exported(player, inputs)
    _compare(onnx, model, player, inputs)
    replace_file(path.parent, path.name, model.SerializeToString())
    return path


VALUE_ROLES = ("actor_critic", "action_values")  # the others leave values to their critics


class OnnxPlayer(nn.Module):
    """One step of a batch, over a flat list of tensors: the observation (or its parts), then the memory's parts."""

    def __init__(self, policy: Agent, role: Role = "actor_critic") -> None:
        super().__init__()
        self.policy = policy
        self.has_value = role in VALUE_ROLES
        space = policy.interface.observation_space
        self.observation_names = [name for name, _ in space.parts] if isinstance(space, DictSpec) else ["observation"]
        self.memory_names = list(policy.initial_memory(1))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Each input [B, …] -> action [B, …], value [B] where the policy has one, then the next memory."""
        seen = len(self.observation_names)
        steps = dict(zip(self.observation_names, (one[None] for one in inputs[:seen]), strict=True))
        is_dict = isinstance(self.policy.interface.observation_space, DictSpec)
        memory = dict(zip(self.memory_names, inputs[seen:], strict=True))
        output = self.policy(steps if is_dict else steps["observation"], memory)
        value = (output.value[0],) if self.has_value else ()
        return output.distribution.mode()[0], *value, *(output.memory[name] for name in self.memory_names)

    @property
    def output_names(self) -> list[str]:
        value = ["value"] if self.has_value else []
        return ["action", *value, *(f"next_{name}" for name in self.memory_names)]

    def example_inputs(self) -> tuple[Tensor, ...]:
        """Observations that are not all alike, from a generator of their own."""
        space = self.policy.interface.observation_space
        parts = [part for _, part in space.parts] if isinstance(space, DictSpec) else [space]
        generator = np.random.default_rng(0)
        memory = self.policy.initial_memory(EXAMPLE_BATCH)
        return (*(_example(part, generator) for part in parts), *(memory[name] for name in self.memory_names))


def _exported(player: OnnxPlayer, inputs: tuple[Tensor, ...]) -> Any:
    batch = torch.export.Dim("batch", min=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter warns of its own insides
            program = torch.onnx.export(
                player,
                inputs,
                dynamo=True,
                verbose=False,
                input_names=[*player.observation_names, *player.memory_names],
                output_names=player.output_names,
                dynamic_shapes={"inputs": tuple({0: batch} for _ in inputs)},
            )
    except torch.onnx.OnnxExporterError as error:
        raise RunFailed(f"This policy cannot be written as ONNX: {str(error).splitlines()[0]}") from error
    assert program is not None, "the exporter gives a program when it is not asked to write a file"
    return program.model_proto


def _compare(onnx: Any, model: Any, player: OnnxPlayer, inputs: tuple[Tensor, ...]) -> None:
    onnx.checker.check_model(model)
    evaluator = importlib.import_module("onnx.reference").ReferenceEvaluator(model)
    given = zip(evaluator.input_names, (one.numpy() for one in inputs), strict=True)
    theirs = evaluator.run(None, dict(given))
    with torch.inference_mode():
        ours = player(*inputs)
    for name, own, other in zip(evaluator.output_names, ours, theirs, strict=True):
        if not np.allclose(own.numpy(), other, atol=TOLERANCE, rtol=TOLERANCE):
            raise RunFailed(f"The ONNX graph gives another '{name}' than the policy; nothing was written.")


def _example(space: SpaceSpec, generator: np.random.Generator) -> Tensor:
    drawn: NDArray[Any]
    match space:
        case BoxSpec():
            drawn = generator.uniform(*_range(space), (EXAMPLE_BATCH, *space.shape))
            drawn = np.rint(drawn) if space.dtype == "uint8" else drawn
        case DiscreteSpec():
            drawn = generator.integers(space.count, size=EXAMPLE_BATCH) + space.start
        case MultiDiscreteSpec():
            drawn = generator.integers(space.counts, size=(EXAMPLE_BATCH, len(space.counts)))
            drawn = drawn + np.asarray(space.starts or 0)
        case DictSpec():
            raise UsageError("Observations with parts inside parts cannot be written as ONNX.")
    return torch.from_numpy(np.ascontiguousarray(drawn, dtype=storage_dtype(space)))


def _range(space: BoxSpec) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lowest and highest of every number, as an environment would give it: codes beyond them have no meaning."""
    low, high = (
        np.reshape(side if len(side) == space.size else side * space.size, space.shape)
        for side in (space.low, space.high)
    )
    bounded = (np.abs(low) < UNBOUNDED) & (np.abs(high) < UNBOUNDED)
    return np.where(bounded, low, 0.0), np.where(bounded, high, 1.0)


def _free_path(out: str | Path, endings: tuple[str, ...]) -> Path:
    path = Path(out).absolute()
    if path.suffix not in endings:
        raise UsageError(f"out={out} does not end in {' or '.join(endings)}.")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a directory.", "Make it first, or choose another place.")
    return path


def _need(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra("Writing ONNX", "onnx") from error
