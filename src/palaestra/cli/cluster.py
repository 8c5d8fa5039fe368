"""`palaestra cluster [cluster.address=HOST:PORT]`: the nodes of a Ray cluster, and what they do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.evaluation_arguments import ADDRESS_KEY, is_cluster_argument, parse_cluster_arguments
from palaestra.cli.output import note, print_json, print_table
from palaestra.cluster.address import configured_address, read_address
from palaestra.cluster.status import read_status
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.parser import Parser
    from palaestra.cluster.status import ClusterStatus, NodeStatus

COLUMNS = ("node", "address", "state", "CPUs", "GPUs", "Python", "Ray", "Palaestra", "code", "last sign")


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "settings", nargs="*", metavar="key=value", help=f"{ADDRESS_KEY}=HOST:PORT; default: the variable RAY_ADDRESS"
    )
    parser.add_flag("--json", action="store_true", help="print JSON on stdout")


def run(arguments: Namespace) -> int:
    for word in arguments.settings:
        if not is_cluster_argument(word):
            raise UsageError(f"'{word}' is not a cluster setting.", f"Write {ADDRESS_KEY}=HOST:PORT.")
    address = configured_address(parse_cluster_arguments(arguments.settings).get("address"))
    if address is None:
        raise UsageError("No cluster address given.", f"Write {ADDRESS_KEY}=HOST:PORT, or set RAY_ADDRESS.")
    status = read_status(str(read_address(address)))
    if arguments.json:
        print_json(asdict(status))
    else:
        show(status)
    return 0


def show(status: ClusterStatus) -> None:
    print_table(COLUMNS, [_row(node) for node in status.nodes])
    for node in status.nodes:
        if node.differences:
            note(f"{node.host}: {', '.join(node.differences)}")
        if node.reason:
            note(f"{node.host} is {node.state}: {node.reason}")
    for job in status.jobs:
        note(f"running: {job.command or 'a program'} (process {job.pid} on {job.address})")
    if not status.jobs:
        note("No programs are connected.")


def _row(node: NodeStatus) -> tuple[str, ...]:
    versions = node.versions
    age = "-" if node.last_sign_seconds is None else f"{node.last_sign_seconds:.1f} s ago"
    return (
        f"{node.host} (head)" if node.is_head else node.host,
        node.address,
        node.state,
        f"{node.cpus_used:g}/{node.cpus:g}",
        f"{node.gpus_used:g}/{node.gpus:g}",
        versions.get("python", "-"),
        versions.get("ray", "-"),
        versions.get("palaestra", "-"),
        node.code,
        age,
    )


def candidates(_argv: Sequence[str]) -> list[str]:
    return [f"{ADDRESS_KEY}="]


COMMAND = Command(
    name="cluster",
    summary="show the nodes of a Ray cluster: load, versions, code, last heartbeat, current work",
    examples=(
        "palaestra cluster",
        "palaestra cluster cluster.address=10.0.0.5:6379",
        "palaestra cluster cluster.address=10.0.0.5:6379 --json",
    ),
    add_arguments=add_arguments,
    run=run,
    candidates=candidates,
)
