"""Whether a page that is left open grows: `python benchmarks/page_memory.py --minutes 10 --out docs/benchmarks`.

The plots of a run that trains meanwhile are open in Chromium. Once a minute garbage is collected, and the memory of
the page's script, its nodes and its listeners are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from page_speed import Serving
from playwright.sync_api import sync_playwright

ENDLESS = {"recipe": "cartpole", "name": "watched", "config": {"total_steps": 1_000_000_000}}
SUBMIT = """async body => (await (await fetch("/api/runs", {
  method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)})).json()).run.id"""
STOP = """async run => { await fetch(`/api/runs/${run}/stop`, {
  method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({grace_seconds: 0})}); }"""


def look(session: Any) -> dict[str, float]:
    session.send("HeapProfiler.collectGarbage")
    counted = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return {
        "script, MB": round(counted["JSHeapUsedSize"] / 1e6, 2),
        "nodes": counted["Nodes"],
        "listeners": counted["JSEventListeners"],
    }


def measure(serving: Serving, minutes: int) -> list[dict[str, float]]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(serving.ready["link"])
        page.locator("h1").wait_for()
        run = page.evaluate(SUBMIT, ENDLESS)
        try:
            page.goto(f"{serving.ready['url']}/#/run/{run}/plots")
            page.get_by_role("figure").first.wait_for(timeout=120_000)
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")
            looks = []
            for _ in range(minutes):
                page.wait_for_timeout(60_000)
                looks.append(look(session))
        finally:
            page.evaluate(STOP, run)
        browser.close()
    return looks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--out", type=Path, help="folder for page-memory.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        serving = Serving(Path(folder))
        try:
            found = {"each minute": measure(serving, arguments.minutes)}
        finally:
            serving.close()
    found |= {
        "cores": os.cpu_count(),
        "load after": round(os.getloadavg()[0], 1),
        "measured": time.strftime("%Y-%m-%d"),
    }
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.out:
        (arguments.out / "page-memory.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
