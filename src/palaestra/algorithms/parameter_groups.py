"""Which weights take Muon's orthogonal steps, and which stay with Adam.

Muon is made for the matrices between hidden layers: it gives every direction of such a matrix a step of the same size.
A table of embeddings is no such matrix (its rows are looked up one by one), and neither is a head: its few rows
differ in scale on purpose. Both, and everything that is not a matrix, stay with Adam.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import nn

from palaestra.policies.agent import Agent
from palaestra.policies.distributions import head_size

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOKED_UP = (nn.Embedding, nn.EmbeddingBag)


class ParameterGroups(NamedTuple):
    adam: list[nn.Parameter]
    muon: list[nn.Parameter]


def group_parameters(policy: nn.Module) -> ParameterGroups:
    """Every parameter in exactly one group, in the policy's order within each."""
    groups = ParameterGroups([], [])
    head_rows = _head_rows(policy)
    for module, name, parameter in _owned_parameters(policy):
        is_muons = is_hidden_matrix(module, name, parameter, head_rows)
        (groups.muon if is_muons else groups.adam).append(parameter)
    return groups


def is_hidden_matrix(module: nn.Module, name: str, parameter: nn.Parameter, head_rows: set[int]) -> bool:
    """A 2-D weight of a layer, not a table, with another number of rows than a head of this policy has.

    Matrices that are not called weight… (learned queries, coordinates) are tables by another name.
    """
    is_weight = parameter.ndim == 2 and name.startswith("weight")
    return is_weight and not isinstance(module, LOOKED_UP) and parameter.shape[0] not in head_rows


def _head_rows(policy: nn.Module) -> set[int]:
    """Rows of the value head and of the action head. A hidden layer of just that width goes to Adam, too."""
    return {1, head_size(policy.interface.action_space)} if isinstance(policy, Agent) else {1}


def _owned_parameters(policy: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Parameter]]:
    """As `policy.parameters()`: each once, with the module that holds it and its name there."""
    seen: set[int] = set()
    for module in policy.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield module, name, parameter
