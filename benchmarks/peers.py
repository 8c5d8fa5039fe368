"""Training speed, start-up, memory and time to a score beside other trainers, in one interleaved run.

    make bench-peers
    make bench-off-policy    # DQN, PQN, SAC and TD3: python benchmarks/peers.py --off-policy
    python benchmarks/peers.py --peers palaestra eager sb3 --settings cleanrl --rounds 3     # a few minutes
    python benchmarks/peers.py --rounds 1 --seconds 1 --out /tmp/bench                       # a small try

Settings: see benchmarks/peers/settings.py; peers: benchmarks/peers/catalogue.py; those of off-policy algorithms and PQN
are in benchmarks/peers/off_policy_settings.py. A peer that needs other packages than we do gets an environment of its
own under --venvs, from benchmarks/peers/requirements-*.txt; one that cannot be installed or fails is named with the
reason. A setting that is measured replaces what the JSON file in --out said of it before, whole; the others stay, each
with the date it was measured at.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peers.installing import CannotInstall, compile_ours, python_of
from peers.page import OFF_POLICY, PPO, Comparison, page
from peers.plot import plot
from peers.running import Measurement, measure
from peers.summary import Block

if TYPE_CHECKING:
    from peers.catalogue import Peer
    from peers.off_policy_settings import OffPolicySetting
    from peers.settings import Setting

ROOT = Path(__file__).parents[1]
NO_CHECKOUT = "no checkout was given (--cleanrl PATH)"


def main() -> None:
    asked = parse()
    compared = OFF_POLICY if asked.off_policy else PPO
    machine = describe_machine()
    wanted = [peer for peer in compared.peers.values() if peer.name in (asked.peers or compared.peers)]
    usable = [peer for peer in wanted if peer.name != "cleanrl" or asked.cleanrl]
    pythons, absent = find_pythons(usable, asked.venvs)
    absent |= {peer.name: NO_CHECKOUT for peer in wanted if peer not in usable}
    if asked.install_only:
        for name, reason in absent.items():
            print(f"{name}: {reason}", file=sys.stderr)
        return
    compile_ours()
    blocks = read_blocks(asked.out / f"{compared.name}.json")
    for name in asked.settings or compared.settings:
        setting = compared.settings[name]
        chosen = [peer for peer in wanted if name in peer.settings]
        missing = {peer.name: absent[peer.name] for peer in chosen if peer.name in absent}
        blocks[name] = take_turns(setting, [peer for peer in chosen if peer.name in pythons], pythons, missing, asked)
        write(asked.out, blocks, machine, compared)
    print((asked.out / f"{compared.name}.md").read_text())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    peers, settings = ({**getattr(PPO, kind), **getattr(OFF_POLICY, kind)} for kind in ("peers", "settings"))
    parser.add_argument("--off-policy", action="store_true", help="DQN, PQN, SAC and TD3 instead of PPO")
    parser.add_argument("--peers", nargs="+", choices=peers, metavar="PEER", help=f"some of: {', '.join(peers)}")
    parser.add_argument("--settings", nargs="+", choices=settings)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement, after warming up")
    parser.add_argument("--cleanrl", type=Path, help="a CleanRL checkout, or its ppo.py: takes part unmodified")
    parser.add_argument("--venvs", type=Path, default=ROOT / ".peers", help="where their environments are made")
    parser.add_argument("--install-only", action="store_true", help="make the environments, say what failed, and leave")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="folder for .json, .md and .svg")
    return parser.parse_args()


def find_pythons(wanted: list[Peer], venvs: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """An interpreter for every peer, or the reason why there is none."""
    pythons: dict[str, Path] = {}
    absent: dict[str, str] = {}
    for peer in wanted:
        try:
            pythons[peer.name] = python_of(peer.requirements, venvs) if peer.requirements else Path(sys.executable)
        except CannotInstall as reason:
            absent[peer.name] = str(reason)
    return pythons, absent


def take_turns(
    setting: Setting | OffPolicySetting,
    peers: list[Peer],
    pythons: dict[str, Path],
    absent: dict[str, str],
    asked: argparse.Namespace,
) -> Block:
    """Every round begins with another peer, so that none always follows the same neighbour's heat.

    One that fails is not asked again: its reason is known, and a peer that hangs costs minutes.
    """
    load, rounds = os.getloadavg()[0], []
    for number in range(asked.rounds):
        start = number % len(peers) if peers else 0
        order = peers[start:] + peers[:start]
        measured = {peer.name: take_one(peer, setting, number + 1, pythons[peer.name], asked) for peer in order}
        rounds.append(tuple(measured[peer.name] for peer in peers))
        peers = [peer for peer in peers if not measured[peer.name].failed]
    return Block(setting.name, time.strftime("%Y-%m-%d %H:%M"), load, asked.seconds, tuple(rounds), absent)


def take_one(
    peer: Peer, setting: Setting | OffPolicySetting, seed: int, python: Path, asked: argparse.Namespace
) -> Measurement:
    more = [str(asked.cleanrl.resolve())] if peer.name == "cleanrl" else []
    found = measure(peer, setting, asked.seconds, seed, python, *more)
    speed = f"{found.steps_per_second:,.0f} steps/s" if found.steps_per_second else "no speed"
    solved = f", solved after {found.solved_seconds:.1f} s" if found.solved_seconds else ""
    start = f", first update after {found.start_seconds:.2f} s" if found.start_seconds else ""
    text = found.failed or f"{speed}{start}{solved}"
    print(f"{setting.name:14} round {seed} {peer.name:16} {text}", file=sys.stderr, flush=True)
    return found


def read_blocks(path: Path) -> dict[str, Block]:
    if not path.exists():
        return {}
    return {name: Block.from_plain(told) for name, told in json.loads(path.read_text())["settings"].items()}


def write(folder: Path, blocks: dict[str, Block], machine: dict[str, Any], compared: Comparison) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ordered = [blocks[name] for name in compared.settings if name in blocks]
    told = {"schema_version": 1, "machine": machine, "settings": {one.setting: asdict(one) for one in ordered}}
    (folder / f"{compared.name}.json").write_text(json.dumps(told, indent=1) + "\n")
    notes = folder / f"{compared.name}-notes.md"  # what a person has to say to them
    text = notes.read_text() if notes.exists() else ""
    (folder / f"{compared.name}.md").write_text(page(ordered, machine, text, compared))
    (folder / f"{compared.name}.svg").write_text(plot(ordered, compared))


def describe_machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
