"""The soak: everything at once for a long time, with a random fault every few seconds.

    python -m tools.reliability.soak --minutes 45 --seed 1 --json build/soak.json

Runs a daemon, two trainings (one with W&B offline), a repeated evaluation and 8 viewers. After every fault the saved
data is audited: nothing may be lost. At the end nothing may be left behind, and the daemon's memory and descriptors
must stay within their bounds. Ctrl-C (or SIGTERM) ends it early; the result until then is reported.
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
from tools.reliability.soak_audit import losses
from tools.reliability.soak_faults import FAULTS
from tools.reliability.soak_report import collect_evidence, draw_curve
from tools.reliability.soak_services import SoakServices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_GROWTH_MB = 32.0  # of the daemon, from the first third of the samples to the last
MOST_NEW_DESCRIPTORS = 16
LEAST_PAUSE_SECONDS = 1.0  # after all is at work again
FAILURES = (PalaestraError, OSError, psutil.Error, subprocess.TimeoutExpired)


def soak(
    services: SoakServices,
    minutes: float,
    fault_seconds: float,
    seed: int,
    stop: StopRequest,
    report: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Inject faults until the time is over. Each sample is taken after all services have recovered."""
    rng = random.Random(f"soak {seed}")  # noqa: S311  to be drawn again
    done: Counter[str] = Counter()
    samples, began = [{"second": 0.0, "fault": "", **services.sample()}], time.monotonic()
    found: dict[str, Any] = {"minutes": minutes, "seed": seed, "samples": samples, "problems": []}
    struck = began
    while not stop and time.monotonic() - began < 60 * minutes:
        wait(max(LEAST_PAUSE_SECONDS, struck + fault_seconds - time.monotonic()), stop)
        if stop:
            break
        fault, struck = rng.choice(FAULTS), time.monotonic()
        done[fault.__name__] += 1
        try:
            fault(services, rng)
            services.restore()
            now = time.monotonic()
            sample = {
                "second": round(now - began, 1),
                "fault": fault.__name__,
                "recovered_after": round(now - struck, 2),
            }
            samples.append({**sample, **services.sample()})
        except FAILURES as error:
            found["problems"].append(f"{fault.__name__}: {error}")
            found["evidence"] = collect_evidence(services)
        for audit in services.run_audits.values():
            audit.audit()
        report(found | {"faults": dict(done), "saved": losses(services.run_audits.values())})
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
    """Difference between the medians of the last and the first third."""
    third = max(1, len(samples) // 3)
    first, last = (sorted(sample[key] for sample in part) for part in (samples[:third], samples[-third:]))
    return float(last[len(last) // 2] - first[len(first) // 2])


def find_problems(found: Mapping[str, Any]) -> list[str]:
    """All violations; empty if the soak test passed."""
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
    report: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    services = SoakServices(root)
    try:
        services.open()
        found = soak(services, minutes, fault_seconds, seed, StopRequest() if stop is None else stop, report)
        found["left"] = {}
        if not found["problems"]:
            try:
                found["left"] = services.close()
            except FAILURES as error:
                found["problems"].append(f"the end: {error}")
                found["evidence"] = collect_evidence(services)
        for audit in services.run_audits.values():
            audit.audit(whole=True)
        found["saved"] = losses(services.run_audits.values())
        found["findings"] = [
            what for audit in services.run_audits.values() for kind in audit.found.values() for what in kind
        ]
        found["frames seen"] = sum(viewer.frames for viewer in services.viewers)
    finally:
        services.kill_everything()
    return found | {"wrong": find_problems(found)}


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tools.reliability.soak", description="Run everything at once and inject faults."
    )
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

    def report(found: dict[str, Any]) -> None:
        """Write the results so far, so that a killed soak test leaves them."""
        print(json.dumps({**found["samples"][-1], "lost": sum(found["saved"].values())}), file=sys.stderr, flush=True)
        write_json(chosen.json, found, durable=False)

    with tempfile.TemporaryDirectory(prefix="palaestra-soak-") as folder, stop_on_signals() as stop:
        try:
            found = run(chosen.minutes, chosen.fault_seconds, chosen.seed, Path(folder), stop, report)
        except PalaestraError as error:
            print(error, file=sys.stderr)
            print((Path(folder) / "soak.log").read_text(errors="replace")[-3000:], file=sys.stderr)
            return 1
        except StopNow as error:
            print(f"Ended by {error} before the final audit. Results so far: {chosen.json}", file=sys.stderr)
            return error.exit_code
    write_json(chosen.json, found, durable=False)
    chosen.curve.write_text(draw_curve(found))
    show(found)
    print(f"everything in {chosen.json}, drawn in {chosen.curve}")
    return 1 if found["wrong"] else exit_code_of(stop.signal) if stop.signal is not None else 0


def show(found: Mapping[str, Any]) -> None:
    minutes = found["seconds"] / 60
    early = f" (stopped by {found['stopped by']}, {found['minutes']:g} were asked for)" if found["stopped by"] else ""
    print(f"{minutes:.1f} minutes{early}: {sum(found['faults'].values())} faults, {found['frames seen']} frames seen")
    print("\n".join(found["wrong"]) or "Nothing lost, nothing left behind, the daemon within its bounds.")


if __name__ == "__main__":
    sys.exit(main())
