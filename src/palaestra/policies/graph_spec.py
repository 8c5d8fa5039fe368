"""A graph as it is written down, read and checked: everything that can be wrong without knowing the environment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from torch import nn

from palaestra.core.errors import UsageError, did_you_mean
from palaestra.policies.components.registry import find_component

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from palaestra.config.base import Frozen
    from palaestra.policies.components.base import Component

SCHEMA_VERSION = 1
OBSERVATION = "observation"
OUTPUTS = ("action", "value")
TOP_KEYS = ("schema_version", "summary", "settings", "nodes")
NODE_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class NodeSpec:
    name: str
    kind: str  # what the graph calls its type
    component: type[Component]
    sources: tuple[str, ...]  # other nodes, `observation`, or `observation.PART`
    settings: Frozen


@dataclass(frozen=True)
class GraphSpec:
    name: str
    nodes: tuple[NodeSpec, ...]  # as written

    @property
    def sources(self) -> dict[str, tuple[str, ...]]:
        return {node.name: node.sources for node in self.nodes}


def read_graph(name: str, data: Any, overrides: Mapping[str, Any]) -> GraphSpec:
    """`data` as parsed from YAML, with `policy.settings` laid over it; all problems are said at once."""
    problems = Problems(f"The graph '{name}'")
    raw_nodes = _raw_nodes(name, data)
    _refuse_unknown_overrides(name, data, overrides)
    raw_nodes = _overridden(raw_nodes, data.get("settings") or {}, overrides)
    nodes = [node for node_name, raw in raw_nodes.items() if (node := _read_node(node_name, raw, problems)) is not None]
    _check_wiring(nodes, set(raw_nodes), problems)
    problems.raise_if_any()
    return GraphSpec(name, tuple(nodes))


def _raw_nodes(name: str, data: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), dict) or not data["nodes"]:
        raise UsageError(f"The graph '{name}' has no nodes.", "It needs 'nodes:' with a name and a type for each.")
    for key in data:
        if key not in TOP_KEYS:
            hint = did_you_mean(str(key), TOP_KEYS) or f"Known: {', '.join(TOP_KEYS)}."
            raise UsageError(f"The graph '{name}' has an unknown key '{key}'.", hint)
    if data.get("schema_version") != SCHEMA_VERSION:
        found = data.get("schema_version")
        raise UsageError(f"The graph '{name}' has schema_version {found}; this version reads {SCHEMA_VERSION}.")
    for node, raw in data["nodes"].items():
        if not isinstance(raw, dict):
            raise UsageError(f"The graph '{name}': node '{node}' is {raw!r}.", "Write {type: …, source: …}.")
    _check_shared(name, data)
    return {str(node): dict(raw) for node, raw in data["nodes"].items()}


def _check_shared(name: str, data: dict[str, Any]) -> None:
    """`settings:` gives one name to a setting of several nodes."""
    shared = data.get("settings") or {}
    for setting, places in shared.items() if isinstance(shared, dict) else [("settings", shared)]:
        is_list = isinstance(places, list) and places and all(str(place).count(".") == 1 for place in places)
        if not is_list or any(place.partition(".")[0] not in data["nodes"] for place in places):
            hint = "Write [node.setting, …] with nodes of this graph."
            raise UsageError(f"The graph '{name}': the shared setting '{setting}' is {places!r}.", hint)
        if setting in data["nodes"]:
            raise UsageError(f"The graph '{name}': '{setting}' is a node and a shared setting.", "Rename one of them.")


def _refuse_unknown_overrides(name: str, data: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    shared, nodes = list(data.get("settings") or {}), list(data["nodes"])
    for key, value in overrides.items():
        if key not in shared and key not in nodes:
            known = [*shared, *(f"{node}.…" for node in nodes)]
            hint = did_you_mean(key, [*shared, *nodes]) or f"Known: {', '.join(known)}."
            raise UsageError(f"policy.settings.{key} is not a setting of this policy.", hint)
        if key in nodes and not isinstance(value, dict):
            raise UsageError(
                f"policy.settings.{key}={value!r}: '{key}' is a node of the graph '{name}'.",
                f"Set one of its settings: policy.settings.{key}.NAME=…",
            )


def _overridden(
    raw_nodes: dict[str, dict[str, Any]], shared: dict[str, list[str]], overrides: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    nodes = {name: dict(raw) for name, raw in raw_nodes.items()}
    for key, value in overrides.items():
        for place in shared.get(key, ()):
            node, _, setting = place.partition(".")
            nodes[node][setting] = value
    for key, value in overrides.items():  # one node's own setting wins over the shared one
        if key in nodes:
            nodes[key] |= value
    return nodes


def _read_node(name: str, raw: dict[str, Any], problems: Problems) -> NodeSpec | None:
    if not NODE_NAME.fullmatch(name) or name == OBSERVATION or hasattr(nn.ModuleDict, name):
        problems.add(f"a node cannot be called '{name}'", "Names are small letters, digits and _, such as 'hidden1'.")
        return None
    settings = {key: value for key, value in raw.items() if key not in ("type", "source")}
    try:
        component = find_component(str(raw.get("type")))
    except UsageError as error:
        problems.add(f"node '{name}': {error.message}", error.hint)
        return None
    read = _read_settings(name, str(raw["type"]), component, settings, problems)
    sources = _read_sources(name, raw.get("source"), component, problems)
    return None if read is None else NodeSpec(name, str(raw["type"]), component, sources, read)


def _read_sources(name: str, raw: Any, component: type[Component], problems: Problems) -> tuple[str, ...]:
    sources = tuple(map(str, raw)) if isinstance(raw, list) else () if raw is None else (str(raw),)
    least, most = component.input_count
    if len(sources) < least or (most is not None and len(sources) > most):
        wanted = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} or {most}"
        problems.add(
            f"node '{name}': has {len(sources)} sources, needs {wanted}", "Write source: NODE or [NODE, NODE]."
        )
    return sources


def _read_settings(
    name: str, type_name: str, component: type[Component], raw: dict[str, Any], problems: Problems
) -> Frozen | None:
    fields = component.Settings.model_fields
    unknown = [key for key in raw if key not in fields]
    for key in unknown:
        hint = did_you_mean(str(key), fields) or f"Known: {', '.join(fields) or 'none'}."
        problems.add(f"node '{name}': '{key}' is not a setting of {type_name}", hint)
    try:
        return component.Settings.model_validate({key: value for key, value in raw.items() if key in fields})
    except ValidationError as error:
        for problem in error.errors():
            setting = ".".join(map(str, problem["loc"]))
            given = "" if problem["type"] == "missing" else f"={problem['input']!r}"
            problems.add(
                f"node '{name}': {setting}{given}: {problem['msg']}",
                f"Set policy.settings.{name}.{problem['loc'][0]}=…",
            )
        return None


def _check_wiring(nodes: list[NodeSpec], all_names: set[str], problems: Problems) -> None:
    """Unknown sources, cycles, missing outputs, and nodes without consumers."""
    known = {*all_names, OBSERVATION}
    for node in nodes:
        for source in node.sources:
            if source.partition(".")[0] != OBSERVATION and source not in known:
                hint = did_you_mean(source, known) or f"Known: {', '.join(sorted(known))}."
                problems.add(f"node '{node.name}': its source '{source}' does not exist", hint)
    for output in OUTPUTS:
        if output not in all_names:
            problems.add(f"there is no node called '{output}'", f"A graph ends in the nodes {' and '.join(OUTPUTS)}.")
    sources = {node.name: node.sources for node in nodes}
    cycle = find_cycle(sources)
    if cycle:
        problems.add(f"these nodes wait for each other: {' -> '.join(cycle)}", "Break the circle.")
    if not problems.found:
        unheard = sorted(set(sources) - reach(OUTPUTS, sources))
        for name in unheard:
            problems.add(f"node '{name}': neither action nor value depends on it", "Remove it, or use it as a source.")


def without_value(spec: GraphSpec) -> GraphSpec:
    """The graph of an actor: without the node `value` and what only it needs."""
    kept = reach(["action"], spec.sources)
    return GraphSpec(spec.name, tuple(node for node in spec.nodes if node.name in kept))


def without_action(spec: GraphSpec) -> GraphSpec:
    """The graph of a critic: without the node `action` and what only it needs."""
    kept = reach(["value"], spec.sources)
    return GraphSpec(spec.name, tuple(node for node in spec.nodes if node.name in kept))


def sorted_nodes(sources: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Every node after its sources, else in the order given. There must be no cycle."""
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in done or name not in sources:
            return
        for source in sources[name]:
            visit(source)
        done[name] = None

    for name in sources:
        visit(name)
    return list(done)


def reach(ends: Iterable[str], sources: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The nodes that `ends` depend on, themselves included."""
    found: set[str] = set()
    waiting = [name for name in ends if name in sources]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [source for source in sources[name] if source in sources]
    return found


def find_cycle(sources: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Nodes along one cycle, the first one again at the end; empty when there is none."""
    safe: set[str] = set()
    for start in sources:
        path: list[str] = []
        cycle = _walk(start, sources, path, safe)
        if cycle:
            return cycle
    return []


def _walk(name: str, sources: Mapping[str, tuple[str, ...]], path: list[str], safe: set[str]) -> list[str]:
    if name in path:
        return [*path[path.index(name) :], name][::-1]
    if name in safe or name not in sources:
        return []
    path.append(name)
    for source in sources[name]:
        cycle = _walk(source, sources, path, safe)
        if cycle:
            return cycle
    path.pop()
    safe.add(name)
    return []


class Problems:
    def __init__(self, subject: str) -> None:
        self.subject = subject  # "The graph 'mine'"
        self.found: list[tuple[str, str]] = []  # what, hint

    def add(self, what: str, hint: str = "") -> None:
        self.found.append((what, hint))

    def raise_if_any(self) -> None:
        if len(self.found) == 1:
            what, hint = self.found[0]
            raise UsageError(f"{self.subject} cannot be built: {what}.", hint)
        if self.found:
            lines = "\n".join(f"  - {what}. {hint}".rstrip() for what, hint in self.found)
            raise UsageError(f"{self.subject} cannot be built, for {len(self.found)} reasons:\n{lines}")
