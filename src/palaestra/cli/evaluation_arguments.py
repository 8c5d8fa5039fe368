"""Arguments that `eval` and `request-eval` share: the plan of an evaluation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import Field

from palaestra.cli.parser import natural, positive
from palaestra.config.base import Frozen
from palaestra.config.distributed import ClusterConfig
from palaestra.config.overrides import parse_overrides, split_setting
from palaestra.config.resolve import resolve_config
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.parser import Parser

SUITE_KEY = "suite"
ADDRESS_KEY = "cluster.address"
CLUSTER_SECTION = "cluster"


class _ClusterSection(Frozen):
    """The settings of a command that names a cluster and nothing else of a run's configuration."""

    cluster: ClusterConfig = Field(default=ClusterConfig())


def is_cluster_argument(word: str) -> bool:
    return word.startswith(f"{CLUSTER_SECTION}.") and "=" in word


def parse_cluster_arguments(argv: Sequence[str]) -> dict[str, Any]:
    """The `cluster.…=…` settings among the words of a command line, checked; only those that are given."""
    settings = []
    for word in filter(is_cluster_argument, argv):
        key, value = split_setting(word)
        settings.append(f"{key}={json.dumps(value)}" if key == ADDRESS_KEY else word)  # [::1]:6379 is no YAML list
    given: dict[str, Any] = parse_overrides(settings).get(CLUSTER_SECTION, {})
    resolve_config(_ClusterSection, None, {CLUSTER_SECTION: given})
    return given


def read_deterministic(arguments: Namespace) -> bool | None:
    """None: as the run has it."""
    if arguments.deterministic and arguments.stochastic:
        raise UsageError("--deterministic and --stochastic exclude each other.", "Keep one of them.")
    return True if arguments.deterministic else False if arguments.stochastic else None


def add_plan_flags(parser: Parser) -> None:
    parser.add_flag("--episodes", type=positive, metavar="N", help="episodes of each simulation; default: the run's")
    parser.add_flag("--seed", type=natural, metavar="N", help="seed of the first episode; the others follow")
    parser.add_flag(
        "--max-steps",
        type=positive,
        metavar="N",
        help="stop an episode after N steps; default: the run's limit, else the environment's, else 10,000",
    )
    parser.add_flag("--deterministic", action="store_true", help="take the most likely action")
    parser.add_flag("--stochastic", action="store_true", help="sample actions instead of taking the most likely one")
