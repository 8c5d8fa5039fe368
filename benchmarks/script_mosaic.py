"""How soon and how often viewers see all environments of an untouched script, and what that costs the script.

    python benchmarks/script_mosaic.py CLEANRL/cleanrl/ppo_continuous_action.py env_id=Walker2d-v5
    python benchmarks/script_mosaic.py CLEANRL/cleanrl/ppo.py env_id=LunarLander-v3
    python benchmarks/script_mosaic.py CLEANRL/cleanrl/ppo_atari.py env_id=BreakoutNoFrameskip-v4 --python VENV
    python benchmarks/script_mosaic.py … --rounds 2 --segment 6 --out /tmp/bench    # a small try
    python benchmarks/script_mosaic.py … --screenshot docs/images/walker2d-mosaic.png    # the page in Chromium instead

One run of the script, under the launcher, with eight environments. A viewer watches all tiles at 15 frames/s for a
segment, leaves for a segment, and comes back: only neighbours in time can be compared on a shared machine. Steps are
those that the run itself reports in its frame buffer; the first seconds of each segment do not count, because a viewer
is forgotten two seconds after he left and a render process needs a moment to start. Iterations are short (32 steps), so
that a segment ends at most one of them too early or too late.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.config.overrides import parse_overrides

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SETTINGS = {"num_envs": 8, "num_steps": 32, "num_minibatches": 4, "update_epochs": 4, "total_timesteps": 10**9}
FRAMES_PER_SECOND = 15.0
SETTLE_SECONDS = 4.0  # of each segment that do not count
START_SECONDS = 300.0
DRAWS = 2000  # resamplings for an interval


@dataclass
class Audience:
    """One viewer who comes and goes; his loop is that of a server."""

    run_id: str
    is_watching: bool = True
    frames: list[tuple[float, int]] = field(default_factory=list)  # when, and of which slot

    def __post_init__(self) -> None:
        from palaestra.rendering.hub import Hub
        from palaestra.runs.processes import is_alive

        self._hub = Hub(is_alive)
        self._join()

    def _join(self) -> None:
        from palaestra.rendering.viewer import Viewer, ViewerRequest

        self._viewer = Viewer(ViewerRequest(FRAMES_PER_SECOND))
        self._watch = self._hub.join(self.run_id, "train", self._viewer)

    def turn(self, *, is_watching: bool) -> None:
        if is_watching and not self.is_watching:
            self._join()
        elif self.is_watching and not is_watching:
            self._hub.leave(self._watch, self._viewer)
        self.is_watching = is_watching

    def attend(self, seconds: float) -> None:
        from palaestra.rendering.hub import RENEW_SECONDS
        from palaestra.rendering.images import MESSAGE

        deadline, renewed_at = time.monotonic() + seconds, 0.0
        while (now := time.monotonic()) < deadline:
            if now - renewed_at > RENEW_SECONDS:
                self._hub.renew(now)
                renewed_at = now
            if select.select([self._hub], [], [], min(0.05, deadline - now))[0]:
                self._hub.on_notification()
            while self.is_watching and (message := self._watch.take(self._viewer, time.monotonic())) is not None:
                self.frames.append((time.monotonic(), MESSAGE.unpack_from(message)[3]))
                self._viewer.acknowledge()

    def close(self) -> None:
        self._hub.close()


def prepared(script: Path, python: str, settings: dict[str, Any], folder: Path) -> tuple[str, list[str]]:
    """A run of the script: its id, and what starts it."""
    from palaestra.apps.scripts.kind import KIND
    from palaestra.apps.scripts.script import read_script
    from palaestra.core.run import RunRequest
    from palaestra.core.worker_kind import Resources
    from palaestra.runs.store import RunStore

    known = {argument.name for argument in read_script(script).arguments}
    usual = {name: value for name, value in SETTINGS.items() if name in known}
    config = {"script": str(script), **usual, **settings, **({"python": python} if python else {})}
    store = RunStore(folder / "runs")
    ready = KIND.prepare(RunRequest("cleanrl", "", config), Resources(1), store.root)
    directory = store.create(ready.request, ready.config, total_steps=ready.total_steps)
    return directory.id, KIND.command(directory.path)


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "printed.txt").open("wb") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            process.wait(60)


def reader_when_there(run_id: str, process: subprocess.Popen[bytes]) -> Any:
    from palaestra.rendering.frame_buffer import FrameBufferError, frame_buffer_path
    from palaestra.rendering.frame_reader import FrameReader

    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(FrameBufferError):
            return FrameReader(frame_buffer_path(run_id, "train"))
        time.sleep(0.05)
    raise RuntimeError("the script has taken no step; see printed.txt")


def measure(script: Path, python: str, settings: dict[str, Any], rounds: int, segment: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_id, command = prepared(script, python, settings, folder)
        with (
            closing(Audience(run_id)) as audience,
            started(command, folder) as process,
            closing(reader_when_there(run_id, process)) as reader,
        ):
            began = time.monotonic()
            fill(audience, reader.slot_count, process, folder)
            filled = {slot: at - began for at, slot in reversed(audience.frames)}
            rates = [taken(audience, reader, segment, number) for number in range(rounds)]
            heartbeat = reader.heartbeat()
    return {
        "slots": reader.slot_count,
        "first_frames": dict(sorted(filled.items())),
        "rounds": rates,
        "own_cost": None if heartbeat is None else heartbeat.cost,
    }


def fill(audience: Audience, slots: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Until every tile has had a frame."""
    deadline = time.monotonic() + START_SECONDS
    while len({slot for _, slot in audience.frames}) < slots:
        audience.attend(0.2)
        if process.poll() is not None:
            raise RuntimeError((folder / "printed.txt").read_text()[-2000:])
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len({slot for _, slot in audience.frames})} of {slots} tiles have had a frame")


def taken(audience: Audience, reader: Any, segment: float, number: int) -> dict[str, float]:
    """Steps a second of one segment with the viewer and one without, and the frames that he got."""
    found: dict[str, float] = {}
    for name in ("watched", "alone") if number % 2 else ("alone", "watched"):
        audience.turn(is_watching=name == "watched")
        audience.attend(SETTLE_SECONDS)
        before, frames = reader.heartbeat(), len(audience.frames)
        audience.attend(segment)
        after = reader.heartbeat()
        found[name] = (after.env_steps - before.env_steps) / (after.at - before.at)
        if name == "watched":
            found["frames_per_second"] = (len(audience.frames) - frames) / segment
    return found


def slower(rounds: list[dict[str, float]]) -> tuple[float, float, float]:
    """By how much the watched segments are slower than their neighbours, with its 95 % interval by resampling."""
    ratios = np.log([one["alone"] / one["watched"] for one in rounds])
    means = np.random.default_rng(0).choice(ratios, (DRAWS, ratios.size)).mean(axis=1)
    middle, low, high = np.expm1([ratios.mean(), *np.quantile(means, [0.025, 0.975])])
    return float(middle), float(low), float(high)


def page(result: dict[str, Any]) -> str:
    rounds = result["rounds"]
    middle, low, high = slower(rounds)
    own = result["own_cost"]
    return "\n".join(
        [
            f"# {result['script']} on {result['env']}, {result['slots']} tiles",
            "",
            f"Written by `python benchmarks/script_mosaic.py`: {len(rounds)} rounds, {result['segment']:g} s each;",
            f"{result['cores']} cores, load before {result['load_before']:.2f}.",
            "",
            "| | |",
            "|---|---|",
            f"| every tile has a frame after | {max(result['first_frames'].values()):.1f} s |",
            f"| frames/s, all tiles together | {mean(one['frames_per_second'] for one in rounds):.1f} |",
            f"| steps/s without a viewer | {mean(one['alone'] for one in rounds):,.0f} |",
            f"| steps/s with a viewer | {mean(one['watched'] for one in rounds):,.0f} |",
            f"| slower with a viewer | {middle:+.2%} ({low:+.2%} to {high:+.2%}) |",
            f"| by the run's own account | {'unknown' if own is None else f'{own:.2%}'} of its time |",
            "",
        ]
    )


def take_screenshot(script: Path, python: str, settings: dict[str, Any], target: Path) -> str:
    """Of the live page, once every tile has had a frame, and the line under the tiles."""
    from playwright.sync_api import sync_playwright

    environment = {name: value for name, value in os.environ.items() if not name.startswith("PALAESTRA_")}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "palaestra"]
        options: dict[str, Any] = {"cwd": folder, "env": environment, "stdout": subprocess.PIPE, "text": True}
        serving = subprocess.Popen([*command, "serve", "--port", "0", "--json"], **options)
        try:
            url = json.loads(_until_closed(serving))["url"]
            token = subprocess.check_output([*command, "token"], cwd=folder, env=environment, text=True).split()[-1]
            config = {"script": str(script), **SETTINGS, **settings, **({"python": python} if python else {})}
            run = _ask(url, token, "/api/runs", {"kind": "cleanrl", "config": config})["run"]["id"]
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
                context = browser.new_context(viewport={"width": 1280, "height": 1000})
                context.request.post(f"{url}/api/login", data={"token": token}, headers={"Origin": url})
                view = context.new_page()
                view.goto(f"{url}/#/run/{run}/live")
                view.wait_for_function(
                    "count => { const all = [...document.querySelectorAll('figcaption')];"
                    " return all.length >= count && all.every(one => /len/.test(one.textContent)); }",
                    arg=settings.get("num_envs", SETTINGS["num_envs"]),
                    timeout=START_SECONDS * 1000,
                )
                view.wait_for_timeout(10_000)  # so that the figures in the line have settled
                target.parent.mkdir(parents=True, exist_ok=True)
                view.screenshot(path=str(target))
                hud = view.get_by_test_id("hud").text_content() or ""
                browser.close()
            _ask(url, token, f"/api/runs/{run}/stop", {"grace_seconds": 5})
        finally:
            serving.terminate()
            serving.wait(30)
    return hud


def _until_closed(serving: subprocess.Popen[str]) -> str:
    assert serving.stdout is not None
    text = ""
    for line in serving.stdout:
        text += line
        if line.startswith("}"):
            break
    return text


def _ask(url: str, token: str, path: str, body: dict[str, Any]) -> Any:
    import urllib.request

    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("script", type=Path)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="arguments of the script")
    parser.add_argument("--python", default="", help="the interpreter that has what the script imports")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--segment", type=float, default=15.0, help="seconds")
    parser.add_argument("--screenshot", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    asked = parser.parse_args()
    settings = parse_overrides(asked.settings)
    if asked.screenshot:
        print(take_screenshot(asked.script.resolve(), asked.python, settings, asked.screenshot))
        return
    about = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0], "segment": asked.segment}
    found = measure(asked.script.resolve(), asked.python, settings, asked.rounds, asked.segment)
    result = {"script": asked.script.name, "env": settings.get("env_id", "its own default"), **about, **found}
    asked.out.mkdir(parents=True, exist_ok=True)
    name = f"script-mosaic-{settings.get('env_id', 'default').lower().replace('/', '-')}"
    (asked.out / f"{name}.json").write_text(json.dumps(result) + "\n")
    (asked.out / f"{name}.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
