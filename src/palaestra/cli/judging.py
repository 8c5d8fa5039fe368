"""What `eval` and `request-eval` have in common: the same plan of episodes, asked for by the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.cli.parser import natural, positive

if TYPE_CHECKING:
    from palaestra.cli.parser import Parser

SUITE_KEY = "suite"
ADDRESS_KEY = "cluster.address"


def add_plan_flags(parser: Parser) -> None:
    parser.add_flag("--episodes", type=positive, metavar="N", help="of each simulation; default: as the run has it")
    parser.add_flag("--seed", type=natural, metavar="N", help="of the first episode, the others follow")
    parser.add_flag("--stochastic", action="store_true", help="sample actions instead of taking the likeliest")
