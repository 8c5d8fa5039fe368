"""Graphs by name: the YAML files of this package, those of others (entry points), and a user's own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.config.yaml_text import parse_yaml
from palaestra.contracts.errors import DamagedFile, NotFound, UsageError

if TYPE_CHECKING:
    from palaestra.config.policy import PolicyConfig

GRAPHS = files("palaestra.policies") / "graphs"
ENDINGS = (".yaml", ".yml")


def shipped_names() -> list[str]:
    return sorted(entry.name.removesuffix(".yaml") for entry in GRAPHS.iterdir() if entry.name.endswith(".yaml"))


def shipped_graph(name: str) -> Any:
    return parse_yaml((GRAPHS / f"{name}.yaml").read_text(encoding="utf-8"), f"the graph '{name}'")


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
