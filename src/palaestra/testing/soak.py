"""The soak: everything at once for a long time, with a random fault every few seconds.

    python -m palaestra.testing.soak --minutes 45 --seed 1 --json build/soak.json

A daemon, two trainings (one with W&B offline), an evaluation on repeat and 8 viewers. After every fault what was
saved is looked at; nothing of it may be lost. At the end nothing may be left behind, and the daemon may have
grown only within its bounds. Ctrl-C (or SIGTERM) ends it early, and what there is by then is judged all the same.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from palaestra.core.errors import PalaestraError
from palaestra.runner.signals import StopNow, StopRequest, exit_code_of, stop_on_signals
from palaestra.runs.files import write_json
from palaestra.testing.soak_curve import curve
from palaestra.testing.soak_evidence import evidence
from palaestra.testing.soak_faults import FAULTS
from palaestra.testing.soak_house import House
from palaestra.testing.soak_ledger import losses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_GROWTH_MB = 32.0  # of the daemon, from the first third of the samples to the last
MOST_NEW_DESCRIPTORS = 16
LEAST_PAUSE_SECONDS = 1.0  # after all is at work again
FAILURES = (PalaestraError, OSError, psutil.Error, subprocess.TimeoutExpired)


def soak(
    house: House,
    minutes: float,
    fault_seconds: float,
    seed: int,
    stop: StopRequest,
    tell: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Disturb until the time is over; every sample is taken when all is at work again."""
    chance = random.Random(f"soak {seed}")  # noqa: S311  to be drawn again
    done: Counter[str] = Counter()
    samples, began = [{"second": 0.0, "fault": "", **house.sample()}], time.monotonic()
    found: dict[str, Any] = {"minutes": minutes, "seed": seed, "samples": samples, "problems": []}
    struck = began
    while not stop and time.monotonic() - began < 60 * minutes:
        wait(max(LEAST_PAUSE_SECONDS, struck + fault_seconds - time.monotonic()), stop)
        if stop:
            break
        fault, struck = chance.choice(FAULTS), time.monotonic()
        done[fault.__name__] += 1
        try:
            fault(house, chance)
            house.restore()
            now = time.monotonic()
            told = {"second": round(now - began, 1), "fault": fault.__name__, "recovered_after": round(now - struck, 2)}
            samples.append({**told, **house.sample()})
        except FAILURES as error:
            found["problems"].append(f"{fault.__name__}: {error}")
            found["evidence"] = evidence(house)
        for ledger in house.ledgers.values():
            ledger.audit()
        tell(found | {"faults": dict(done), "saved": losses(house.ledgers.values())})
        if found["problems"]:
            break
    return found | {"faults": dict(done), "seconds": round(time.monotonic() - began, 1), "stopped by": name_of(stop)}


def wait(seconds: float, stop: StopRequest) -> None:
    deadline = time.monotonic() + seconds
    while not stop and (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))


def name_of(stop: StopRequest) -> str:
    return signal.Signals(stop.signal).name if stop.signal is not None else ""


def growth(samples: Sequence[Mapping[str, Any]], key: str) -> float:
    """How much larger the typical value of the last third is than that of the first."""
    third = max(1, len(samples) // 3)
    first, last = (sorted(sample[key] for sample in part) for part in (samples[:third], samples[-third:]))
    return float(last[len(last) // 2] - first[len(first) // 2])


def verdicts(found: Mapping[str, Any]) -> list[str]:
    """Everything that was promised and is not so; empty when the soak held."""
    wrong = list(found["problems"])
    wrong += [f"{name}: {count}" for name, count in found["saved"].items() if count]
    wrong += [f"{name}: {', '.join(what)}" for name, what in found["left"].items() if what]
    if (grown := growth(found["samples"], "rss_mb")) > MOST_GROWTH_MB:
        wrong.append(f"the daemon grew by {grown:.0f} MB")
    if (more := growth(found["samples"], "descriptors")) > MOST_NEW_DESCRIPTORS:
        wrong.append(f"the daemon has {more:.0f} descriptors more")
    return wrong


def run(
    minutes: float,
    fault_seconds: float,
    seed: int,
    root: Path,
    stop: StopRequest | None = None,
    tell: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    house = House(root)
    try:
        house.open()
        found = soak(house, minutes, fault_seconds, seed, StopRequest() if stop is None else stop, tell)
        found["left"] = {}
        if not found["problems"]:
            try:
                found["left"] = house.close()
            except FAILURES as error:
                found["problems"].append(f"the end: {error}")
                found["evidence"] = evidence(house)
        for ledger in house.ledgers.values():
            ledger.audit(whole=True)
        found["saved"] = losses(house.ledgers.values())
        found["findings"] = [
            what for ledger in house.ledgers.values() for kind in ledger.found.values() for what in kind
        ]
        found["frames seen"] = sum(viewer.frames for viewer in house.viewers)
    finally:
        house.kill_everything()
    return found | {"wrong": verdicts(found)}


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m palaestra.testing.soak", description="Everything at once, disturbed.")
    parser.add_argument("--minutes", type=float, default=45.0, help="default 45; published: 120")
    parser.add_argument("--fault-seconds", type=float, default=10.0, help="between two faults (default 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the faults (default 0)")
    parser.add_argument("--json", type=Path, default=Path("build/soak.json"), help="default build/soak.json")
    parser.add_argument("--curve", type=Path, default=Path("build/soak.svg"), help="default build/soak.svg")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    chosen = parse(words)
    for path in (chosen.json, chosen.curve):
        path.parent.mkdir(parents=True, exist_ok=True)

    def tell(found: dict[str, Any]) -> None:
        """As it goes: whoever kills the soak has what it saw until then."""
        print(json.dumps({**found["samples"][-1], "lost": sum(found["saved"].values())}), file=sys.stderr, flush=True)
        write_json(chosen.json, found, durable=False)

    with tempfile.TemporaryDirectory(prefix="palaestra-soak-") as folder, stop_on_signals() as stop:
        try:
            found = run(chosen.minutes, chosen.fault_seconds, chosen.seed, Path(folder), stop, tell)
        except PalaestraError as error:
            print(error, file=sys.stderr)
            print((Path(folder) / "soak.log").read_text(errors="replace")[-3000:], file=sys.stderr)
            return 1
        except StopNow as error:
            print(f"Ended by {error} before it was judged; as far as it went: {chosen.json}", file=sys.stderr)
            return error.exit_code
    write_json(chosen.json, found, durable=False)
    chosen.curve.write_text(curve(found))
    show(found)
    print(f"everything in {chosen.json}, drawn in {chosen.curve}")
    return 1 if found["wrong"] else exit_code_of(stop.signal) if stop.signal is not None else 0


def show(found: Mapping[str, Any]) -> None:
    minutes = found["seconds"] / 60
    early = f" (stopped by {found['stopped by']}, {found['minutes']:g} were asked for)" if found["stopped by"] else ""
    print(f"{minutes:.1f} minutes{early}: {sum(found['faults'].values())} faults, {found['frames seen']} frames seen")
    print("\n".join(found["wrong"]) or "nothing lost, nothing left behind, the daemon within its bounds")


if __name__ == "__main__":
    sys.exit(main())
