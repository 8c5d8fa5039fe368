"""Who comes before whom. A graph here is a dictionary from each node to the names of its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
