"""What `eval` and `request-eval` have in common: the same plan of episodes, asked for by the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.cli.parser import natural, positive
from palaestra.contracts.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser

SUITE_KEY = "suite"
ADDRESS_KEY = "cluster.address"


def read_deterministic(arguments: Namespace) -> bool | None:
    """None: as the run has it."""
    if arguments.deterministic and arguments.stochastic:
        raise UsageError("--deterministic and --stochastic were both given.", "Keep one of them.")
    return True if arguments.deterministic else False if arguments.stochastic else None


def add_plan_flags(parser: Parser) -> None:
    parser.add_flag("--episodes", type=positive, metavar="N", help="of each simulation; default: as the run has it")
    parser.add_flag("--seed", type=natural, metavar="N", help="of the first episode, the others follow")
    parser.add_flag(
        "--max-steps",
        type=positive,
        metavar="N",
        help="stop an episode after N steps; default: as the run has it, else the env's time limit, else 10,000",
    )
    parser.add_flag("--deterministic", action="store_true", help="take the likeliest action, whatever the run has")
    parser.add_flag("--stochastic", action="store_true", help="sample actions instead of taking the likeliest")
