"""`palaestra worker --head | --address HOST:PORT [--cpus N] [--gpus N]`: this machine as a part of a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import note
from palaestra.cli.parser import natural, positive
from palaestra.cluster.node import LOOPBACK, PORT, ClusterLeft, head_token, read_node_options, serve

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser
    from palaestra.cluster.node import NodeOptions


def add_arguments(parser: Parser) -> None:
    parser.add_flag("--head", action="store_true", help="start a cluster, protected by a token")
    parser.add_flag("--address", default="", metavar="HOST:PORT", help="join the cluster with its head at this address")
    parser.add_flag("--cpus", type=natural, metavar="N", help="CPUs to offer; default: all of this machine")
    parser.add_flag("--gpus", type=natural, metavar="N", help="GPUs to offer; default: all of this machine")
    parser.add_flag(
        "--host",
        default="",
        metavar="IP",
        help="address at which other machines reach this one; default with --head: "
        f"{LOOPBACK}, this machine alone; with --address: the one on the route to the head",
    )
    parser.add_flag(
        "--wait", type=natural, default=0, metavar="SECONDS", help="with --address: seconds to wait for the head"
    )
    parser.add_flag("--port", type=positive, default=PORT, metavar="N", help=f"with --head; default: {PORT}")


def run(arguments: Namespace) -> int:
    order = read_node_options(
        head=arguments.head,
        address=arguments.address,
        host=arguments.host,
        port=arguments.port,
        cpus=arguments.cpus,
        gpus=arguments.gpus,
    )
    try:
        serve(order, lambda: print(_line(order), flush=True), note, arguments.wait)
    except ClusterLeft as left:
        note(f"{left}: this machine has left the cluster at {order.address}.")
        return left.exit_code
    return 0


def _line(order: NodeOptions) -> str:
    use = f"use it with: palaestra eval RUN remote=true cluster.address={order.address}"
    if not order.is_head:
        return f"This machine belongs to the cluster at {order.address}; {use}; Ctrl-C leaves it."
    join = f"others join with: palaestra worker --address {order.address}, once they have {head_token().source}"
    if order.address.is_local:
        join = "only this machine reaches it (--host IP opens it to others)"
    return f"A cluster is up at {order.address}; {join}; {use}; Ctrl-C ends it."


COMMAND = Command(
    name="worker",
    summary="add this machine to a Ray cluster while the command runs, or start a cluster",
    examples=(
        "palaestra worker --head",
        "palaestra worker --head --host 10.0.0.5",
        "palaestra worker --address 10.0.0.5:6379 --cpus 8",
    ),
    add_arguments=add_arguments,
    run=run,
)
