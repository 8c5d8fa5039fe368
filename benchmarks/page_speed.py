"""How the page behaves over many long runs: `python benchmarks/page_speed.py --out docs/benchmarks`.

    python benchmarks/page_speed.py --runs 20 --points 100000      # a small try
    python benchmarks/page_speed.py --keep --zooms 10              # only zooms, a row for each
    python benchmarks/page_speed.py --keep --rounds 10             # all of it ten times, a row for each

Makes the runs (finished, with a metrics.db of that many points), serves them, opens the page in Chromium, scrolls and
zooms, and counts how long every picture took. With --out the figures are kept, and the trace of the zoom, which
chrome://tracing and ui.perfetto.dev open. Everything else is under --root and is removed afterwards.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from palaestra.config.recipes.registry import find_recipe
from palaestra.core.metrics_logger import Sample
from palaestra.core.run import RunRequest, RunState
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.runs.status import read_record, write_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONG_MS = 50.5  # three pictures of a screen that shows 60 a second last 50, and the browser's clock counts tenths
STEPS = 512  # between two samples
KINDS = 2  # different metrics.db; runs share them by hard links
NAMES = ["charts/episodic_return", "charts/episodic_length", "eval/episodic_return"]

# When each picture was shown, as the page itself sees it.
WATCH = """() => {
  window.pictures = [];
  let last = performance.now();
  const look = now => { pictures.push(now - last); last = now; requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""
READ = """() => { const seen = pictures; window.pictures = []; return seen; }"""
TRACED = ["disabled-by-default-devtools.timeline", "toplevel", "devtools.timeline"]
# Where there is no graphics card, Chromium would play one on all cores, and the page would wait for it.
BROWSER = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"]
SHORTEST_KEPT = 1000  # microseconds; of the trace that is kept


def make_metrics(path: Path, names: list[str], samples: int, seed: int) -> None:
    with MetricsWriter(path) as writer:
        writer.write(Sample(0, dict.fromkeys(names, 0.0), at=0.0))
    dice = random.Random(seed)
    noise = [dice.random() for _ in range(4096)]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    rows = ((number + 1, number * STEPS, float(number)) for number in range(1, samples))
    connection.executemany("INSERT INTO samples VALUES (?, ?, ?)", rows)
    points = (
        (number * STEPS, name, noise[(number * 31 + name * 7) & 4095] + math.tanh(number / samples * 3), number + 1)
        for number in range(1, samples)
        for name in range(1, len(names) + 1)
    )
    connection.executemany("INSERT INTO points VALUES (?, ?, ?, ?)", points)
    connection.execute("COMMIT")
    connection.close()


def make_store(root: Path, runs: int, points: int) -> None:
    names = [*NAMES, *(f"losses/curve_{number:02}" for number in range(17))]
    samples = points // len(names)
    kinds = [root / f"metrics-{kind}.db" for kind in range(min(KINDS, runs))]
    for kind, path in enumerate(kinds):
        make_metrics(path, names, samples, kind)
    store, recipe = RunStore(root / "runs"), find_recipe("cartpole")
    for number in range(runs):
        config = {**recipe.config.model_dump(mode="json"), "seed": number, "total_steps": samples * STEPS}
        request = RunRequest("native", "cartpole", {"seed": number}, f"long-{number:03}")
        directory = store.create(request, config, total_steps=samples * STEPS)
        os.link(kinds[number % len(kinds)], directory.metrics_file)
        record = read_record(directory)
        over = replace(
            record, state=RunState.FINISHED, agent_step=samples * STEPS, exit_code=0, summary={"episodic_return": 1.9}
        )
        write_record(directory, over)


class Serving:
    def __init__(self, root: Path) -> None:
        words = [sys.executable, "-m", "palaestra", "serve", "--port", "0", "--json"]
        self.process = subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        text = ""
        for line in self.process.stdout:
            text += line
            if line.startswith("}"):
                break
        self.ready = json.loads(text)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def served(root: Path) -> Iterator[Serving]:
    serving = Serving(root)
    try:
        yield serving
    finally:
        serving.close()


def measured(page, act: Callable[[Any], None], trace: list[dict[str, Any]] | None = None) -> dict[str, float]:
    """How long pictures and tasks took while the page was acted upon: twice, because whoever records tasks takes part
    of the machine from who draws. A task's processor time is its own; its wall time is also others'."""
    page.evaluate(READ)
    act(page)
    pictures = sorted(page.evaluate(READ)) or [0.0]
    page.context.browser.start_tracing(page=page, categories=TRACED)
    act(page)
    events = json.loads(page.context.browser.stop_tracing())["traceEvents"]
    tasks = main_tasks(events)
    if trace is not None:
        trace.extend(worth_keeping(events))
    return {
        "pictures": len(pictures),
        "median picture, ms": round(statistics.median(pictures), 1),
        "longest picture, ms": round(pictures[-1], 1),
        "pictures over 50 ms": sum(one > LONG_MS for one in pictures),
        "tasks": len(tasks),
        "longest task, ms": round(max(one["dur"] for one in tasks) / 1000, 1),
        "longest task, ms of processor time": round(max(one.get("tdur", 0) for one in tasks) / 1000, 1),
        "tasks over 50 ms of processor time": sum(one.get("tdur", 0) > 50_000 for one in tasks),
    }


def main_tasks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the thread that runs the page's own code."""
    threads = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    busy = [one for one in events if one["name"] in {"RunTask"} and "dur" in one]
    return [one for one in busy if (one["pid"], one["tid"]) in threads]


def worth_keeping(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Names of threads, and what took a while in the page's own: small enough to lie beside the figures."""
    names = [one for one in events if one["name"] in {"thread_name", "process_name"}]
    busy = {(one["pid"], one["tid"]) for one in main_tasks(events)}
    slow = [one for one in events if one.get("dur", 0) >= SHORTEST_KEPT and (one["pid"], one["tid"]) in busy]
    return [*names, *slow]


def count_questions(page) -> None:
    """Playwright's own idea of an idle network is about the loading of a page, not about what it asks afterwards."""
    page.open_questions = set()

    def asked(request) -> None:  # a function of ours, which Playwright writes on; a set's own cannot be written on
        page.open_questions.add(request)

    def answered(request) -> None:
        page.open_questions.discard(request)

    page.on("request", asked)
    page.on("requestfinished", answered)
    page.on("requestfailed", answered)


def settle(page) -> None:
    """Until nothing was asked for a third of a second."""
    quiet = 0
    while quiet < 7:
        page.wait_for_timeout(50)
        quiet = 0 if page.open_questions else quiet + 1


def first_page(page, url: str) -> float:
    """Milliseconds from the beginning of the navigation to the first row of the table, best of five."""
    times = []
    for _ in range(5):
        page.goto("about:blank")
        page.goto(f"{url}/#/runs")
        page.locator("td.name a").first.wait_for()
        times.append(page.evaluate("() => performance.now()"))
        settle(page)
    return round(min(times), 0)


def scroll(page, pixels: int, steps: int) -> None:
    page.evaluate("() => scrollTo(0, 0)")
    for _ in range(steps):
        page.mouse.wheel(0, pixels)
        page.wait_for_timeout(50)
    settle(page)


def zoom(page) -> None:
    """In twice, to single points, and out again, on a chart of all runs."""
    chart = page.get_by_role("region", name="episodic_return").first.get_by_role("figure")
    for share in (0.4, 0.1):
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 90)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * (0.4 + share), box["y"] + 90, steps=8)
        page.mouse.up()
        settle(page)
    chart.dblclick()
    settle(page)


def bring_chart_into_sight(page) -> None:
    page.evaluate("() => scrollTo(0, 0)")
    page.get_by_role("region", name="episodic_return").first.get_by_role("figure").wait_for()
    settle(page)


@contextmanager
def opened(serving: Serving) -> Iterator[Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=BROWSER)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(600_000)
        count_questions(page)
        page.goto(serving.ready["link"])
        yield page
        browser.close()


def compare_all(page, url: str, runs: int) -> None:
    ids = page.evaluate("async n => (await (await fetch(`/api/runs?limit=${n}`)).json()).runs.map(run => run.id)", runs)
    page.goto(f"{url}/#/compare?runs={','.join(ids)}")
    page.get_by_role("figure").first.wait_for()
    settle(page)


def measure(serving: Serving, runs: int, trace: list[dict[str, Any]]) -> dict[str, object]:
    with opened(serving) as page:
        found: dict[str, object] = {"first page, ms": first_page(page, serving.ready["url"])}
        page.evaluate(WATCH)
        found["scrolling the table"] = measured(page, lambda page: scroll(page, 400, 30))
        compare_all(page, serving.ready["url"], runs)
        found["scrolling charts of all runs"] = measured(page, lambda page: scroll(page, 300, 40))
        bring_chart_into_sight(page)
        found["zooming into all runs"] = measured(page, zoom, trace)
    return found


def measure_zooms(serving: Serving, runs: int, count: int) -> dict[str, object]:
    """One after another, without a tracer. What the host gave to strangers meanwhile was not ours to use."""
    rows = []
    with opened(serving) as page:
        settle(page)
        page.evaluate(WATCH)
        compare_all(page, serving.ready["url"], runs)
        bring_chart_into_sight(page)
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
        for _ in range(count):
            page.evaluate(READ)
            worked, taken = page_seconds(metrics), stolen_seconds()
            zoom(page)
            pictures = sorted(page.evaluate(READ))
            row = {"pictures": len(pictures), "longest, ms": [round(one, 1) for one in pictures[-3:]]}
            row["processor time of the page, s"] = round(page_seconds(metrics) - worked, 2)
            row["taken by the host, s"] = round(stolen_seconds() - taken, 2)
            rows.append(row)
            print(json.dumps(row), flush=True)
    return {"zooms": rows, "zooms with a picture over 50 ms": sum(row["longest, ms"][-1] > LONG_MS for row in rows)}


def measure_rounds(root: Path, runs: int, count: int, trace: list[dict[str, Any]]) -> dict[str, object]:
    """Everything anew each time, daemon and browser too. The figures of the last are told as a whole."""
    rows = []
    for _ in range(count):
        trace.clear()
        with served(root) as serving:
            load, taken = os.getloadavg()[0], stolen_seconds()
            found = measure(serving, runs, trace)
        longest = {name: part["longest picture, ms"] for name, part in found.items() if isinstance(part, dict)}
        row = {"longest picture, ms": longest, "load before": round(load, 1)}
        row["taken by the host, s"] = round(stolen_seconds() - taken, 2)
        rows.append(row)
        print(json.dumps(row), flush=True)
    is_long = [max(row["longest picture, ms"].values()) > LONG_MS for row in rows]
    return {**found, "rounds": rows, "rounds with a picture over 50 ms": sum(is_long)}


def page_seconds(metrics) -> float:
    """Processor time of all tasks of the page so far."""
    return {one["name"]: one["value"] for one in metrics.send("Performance.getMetrics")["metrics"]}["TaskDuration"]


def stolen_seconds() -> float:
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--points", type=int, default=1_000_000, help="of each run, all 20 metrics together")
    parser.add_argument("--root", type=Path, default=Path("/tmp/palaestra-page-speed"))
    parser.add_argument("--out", type=Path, help="folder for the figures, and for the trace of a zoom")
    parser.add_argument("--keep", action="store_true", help="the runs stay, and are used again the next time")
    parser.add_argument("--zooms", type=int, default=0, help="nothing but so many zooms, one after another")
    parser.add_argument("--rounds", type=int, default=1, help="all of it so many times")
    arguments = parser.parse_args()
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    began_at, trace = time.monotonic(), []
    if not (arguments.root / "runs").is_dir():
        arguments.root.mkdir(parents=True)
        make_store(arguments.root, arguments.runs, arguments.points)
    found = {"runs": arguments.runs, "points of each": arguments.points}
    if arguments.zooms:
        with served(arguments.root) as serving:
            found |= measure_zooms(serving, arguments.runs, arguments.zooms)
    else:
        found |= measure_rounds(arguments.root, arguments.runs, arguments.rounds, trace)
    found |= {"cores": os.cpu_count(), "measured": time.strftime("%Y-%m-%d")}
    found["seconds in all"] = round(time.monotonic() - began_at)
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.out:
        (arguments.out / ("page-zooms.json" if arguments.zooms else "page-speed.json")).write_text(text + "\n")
    if arguments.out and trace:
        packed = gzip.compress(json.dumps({"traceEvents": trace}).encode(), mtime=0)
        (arguments.out / "page-speed-trace.json.gz").write_bytes(packed)
    if not arguments.keep:
        shutil.rmtree(arguments.root)


if __name__ == "__main__":
    main()
