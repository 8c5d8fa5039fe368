"""The soak: everything at once for a long time, with a random fault every few seconds.

    python -m palaestra.testing.soak --minutes 45 --seed 1 --json build/soak.json

A daemon, two trainings (one with W&B offline), an evaluation on repeat and 8 viewers. At the end nothing that was
saved may be lost, nothing may be left behind, and the daemon must be as small as at the beginning.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.reading import survey
from palaestra.contracts.errors import PalaestraError
from palaestra.runs.metrics_reader import MetricsReader
from palaestra.testing.soak_curve import curve
from palaestra.testing.soak_faults import FAULTS
from palaestra.testing.soak_house import RUNS, House

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_GROWTH_MB = 32.0  # of the daemon, from the first third of the samples to the last
MOST_NEW_DESCRIPTORS = 16


def soak(house: House, minutes: float, fault_seconds: float, seed: int) -> dict[str, Any]:
    """Disturb until the time is over; every sample is taken when all is at work again."""
    chance = random.Random(f"soak {seed}")  # noqa: S311  to be drawn again
    done: Counter[str] = Counter()
    samples, problems, began = [{"second": 0.0, "fault": "", **house.sample()}], [], time.monotonic()
    while time.monotonic() - began < 60 * minutes:
        time.sleep(fault_seconds)
        fault = chance.choice(FAULTS)
        done[fault.__name__] += 1
        struck = time.monotonic()
        try:
            fault(house, chance)
            house.restore()
        except (PalaestraError, OSError) as error:
            problems.append(f"{fault.__name__}: {error}")
            break
        now = time.monotonic()
        told = {"second": round(now - began, 1), "fault": fault.__name__, "recovered_after": round(now - struck, 2)}
        samples.append({**told, **house.sample()})
        print(json.dumps(samples[-1]), file=sys.stderr, flush=True)
    return {"faults": dict(done), "samples": samples, "problems": problems}


def saved_work(house: House) -> dict[str, int]:
    """Checkpoints that do not verify (but for those cut on purpose) and metrics that are doubled or cannot be read."""
    refused = sum(len(survey(house.directory(name).checkpoints).refused) for name in RUNS)
    doubled = unread = 0
    for name in RUNS:
        try:
            with MetricsReader(house.directory(name).metrics_file) as reader:
                steps = [point.step for point in reader.series("charts/learning_rate")]
        except PalaestraError:
            unread += 1
            continue
        doubled += sum(later <= earlier for earlier, later in itertools.pairwise(steps))
    return {
        "unreadable checkpoints": max(0, refused - house.damaged),
        "metrics doubled": doubled,
        "metrics unread": unread,
    }


def growth(samples: Sequence[Mapping[str, Any]], key: str) -> float:
    """How much larger the typical value of the last third is than that of the first."""
    third = max(1, len(samples) // 3)
    first, last = (sorted(sample[key] for sample in part) for part in (samples[:third], samples[-third:]))
    return float(last[len(last) // 2] - first[len(first) // 2])


def verdicts(found: Mapping[str, Any]) -> list[str]:
    """Everything that was promised and is not so; empty when the soak held."""
    wrong = list(found["problems"])
    wrong += [f"{name}: {count}" for part in ("saved", "left") for name, count in found[part].items() if count]
    if (grown := growth(found["samples"], "rss_mb")) > MOST_GROWTH_MB:
        wrong.append(f"the daemon grew by {grown:.0f} MB")
    if (more := growth(found["samples"], "descriptors")) > MOST_NEW_DESCRIPTORS:
        wrong.append(f"the daemon has {more:.0f} descriptors more")
    return wrong


def run(minutes: float, fault_seconds: float, seed: int, root: Path) -> dict[str, Any]:
    house = House(root)
    try:
        house.open()
        found = soak(house, minutes, fault_seconds, seed)
        found["left"] = house.close() if not found["problems"] else {}
        found["saved"] = saved_work(house)
        found["frames seen"] = sum(viewer.frames for viewer in house.viewers)
    finally:
        house.kill_everything()
    return {"minutes": minutes, "seed": seed, **found, "wrong": verdicts(found)}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m palaestra.testing.soak", description="Everything at once, disturbed.")
    parser.add_argument("--minutes", type=float, default=45.0, help="default 45; published: 120")
    parser.add_argument("--fault-seconds", type=float, default=10.0, help="between two faults (default 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the faults (default 0)")
    parser.add_argument("--json", type=Path, default=Path("build/soak.json"), help="default build/soak.json")
    parser.add_argument("--curve", type=Path, default=Path("build/soak.svg"), help="default build/soak.svg")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="palaestra-soak-") as folder:
        try:
            found = run(chosen.minutes, chosen.fault_seconds, chosen.seed, Path(folder))
        except PalaestraError as error:
            print(error, file=sys.stderr)
            print((Path(folder) / "soak.log").read_text(errors="replace")[-3000:], file=sys.stderr)
            return 1
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    chosen.curve.parent.mkdir(parents=True, exist_ok=True)
    chosen.curve.write_text(curve(found))
    print(f"{sum(found['faults'].values())} faults, {found['frames seen']} frames seen")
    print(f"everything in {chosen.json}, drawn in {chosen.curve}")
    print("\n".join(found["wrong"]) or "nothing lost, nothing left behind, the daemon as small as before")
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
