"""Graphs by name: the YAML files of this package, those of others (entry points), and a user's own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.config.policy import AUTO, CHOSEN_NETWORKS, PolicyConfig
from palaestra.config.yaml import parse_yaml
from palaestra.core.errors import DamagedFile, NotFound, UsageError
from palaestra.core.spaces import BoxSpec, DictSpec

if TYPE_CHECKING:
    from palaestra.core.spaces import EnvInterface, SpaceSpec

GRAPHS = files("palaestra.policies") / "graphs"
ENDINGS = (".yaml", ".yml")
SMALLEST_IMAGE = 8  # pixels of the shorter side; smaller boxes are boards and tables as often as images


def shipped_names() -> list[str]:
    return sorted(entry.name.removesuffix(".yaml") for entry in GRAPHS.iterdir() if entry.name.endswith(".yaml"))


def shipped_graph(name: str) -> Any:
    return parse_yaml((GRAPHS / f"{name}.yaml").read_text(encoding="utf-8"), f"the graph '{name}'")


def with_chosen_network(config: PolicyConfig, interface: EnvInterface) -> PolicyConfig:
    """`policy.graph=auto` as the network that it stands for in environments with this interface."""
    if config.graph != AUTO:
        return config
    vector_network, image_network = CHOSEN_NETWORKS
    graph = image_network if is_image(interface.observation_space) else vector_network
    return config.model_copy(update={"graph": graph})


def notes_on_network(config: PolicyConfig, interface: EnvInterface) -> list[str]:
    """What a user should know about an image and the network that reads it."""
    space = interface.observation_space
    parts = space.parts if isinstance(space, DictSpec) else (("", space),)
    images = {name: part.shape for name, part in parts if isinstance(part, BoxSpec) and is_image(part)}
    shapes = ", ".join(f"{name} {'x'.join(map(str, shape))}".strip() for name, shape in images.items())
    if images and config.graph == "cnn":
        return [f"Policy: cnn, because observations are images ({shapes}). For a plain network: policy=mlp."]
    if images and config.graph == "mlp":
        return [f"Policy: mlp flattens the images it sees ({shapes}) and learns poorly from them. Try policy=cnn."]
    return []


def is_image(space: SpaceSpec) -> bool:
    """A box [height, width, channels] or [channels, height, width], or one of bytes [height, width]."""
    if not isinstance(space, BoxSpec):
        return False
    sides = sorted(space.shape)[-2:]  # the channels are the shortest axis
    has_axes = len(space.shape) == 3 or (len(space.shape) == 2 and space.dtype == "uint8")
    return has_axes and sides[0] >= SMALLEST_IMAGE


def is_text(graph: str) -> bool:
    """The graph itself instead of its name: how a checkpoint keeps a graph of the user's own."""
    return "\n" in graph


def is_file(graph: str) -> bool:
    return not is_text(graph) and (graph.endswith(ENDINGS) or "/" in graph)


def parse_graph(text: str, name: str) -> Any:
    try:
        return parse_yaml(text, f"the graph '{name}'")
    except DamagedFile as error:
        raise UsageError(f"policy.graph={name} cannot be read: {error.message}", error.hint) from error


def read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = f"Graphs that come with Palaestra: {', '.join(shipped_names())}."
        raise NotFound(f"policy.graph={path}: there is no such file.", hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"policy.graph={path} cannot be read: {error}.") from error


def self_contained(config: PolicyConfig) -> PolicyConfig:
    """The same policy without a file beside it: a graph of the user's own is written into the configuration."""
    if config.module is not None or not is_file(str(config.graph)):
        return config
    return config.model_copy(update={"graph": read_text(str(config.graph)).rstrip() + "\n"})
