"""Run ids (ULIDs), run names and the links in `by-name/`."""

from __future__ import annotations

import contextlib
import random
import re
import secrets
import threading
import time
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ulid import ULID

from palaestra.core.errors import UsageError
from palaestra.runs.files import fsync_directory

if TYPE_CHECKING:
    from pathlib import Path

MAX_NAME_LENGTH = 80
MAX_ULID = (1 << 128) - 1
ULID_PATTERN = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.IGNORECASE)  # Crockford's base 32
RESERVED = {"latest", "by-name"}

MOODS = "amber brave bright calm clever eager fair gentle happy keen kind lucky merry mild neat noble proud quick quiet"
COLOURS = "azure bronze copper coral crimson golden green indigo ivory jade olive pearl ruby silver teal violet white"
ANIMALS = "badger bear crane deer eagle falcon finch fox hare heron ibis lion lynx otter owl raven seal swan wolf wren"

_guard = threading.Lock()
_last = 0


def new_run_id(after: str = "") -> str:
    """A ULID above every one made before in this process, and above `after`, even when the clock goes back."""
    global _last  # noqa: PLW0603  one counter for the whole process is the point
    with _guard:
        floor = max(_last, int(ULID.from_str(after)) if is_run_id(after) else 0)
        fresh = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
        _last = fresh if fresh > floor or floor >= MAX_ULID else floor + 1
        return str(ULID.from_int(_last))


def is_run_id(text: str) -> bool:
    return ULID_PATTERN.fullmatch(text) is not None


def created_at(run_id: str) -> float:
    """Seconds since 1970, from the id."""
    return ULID.from_str(run_id).timestamp


def nickname() -> str:
    """Three pleasant words. Not from the seeded generators: a nickname must never change a training."""
    source = random.SystemRandom()
    return "-".join(source.choice(words.split()) for words in (MOODS, COLOURS, ANIMALS))


def check_name(name: str) -> str:
    """The name itself, if it can be a run's name."""
    problem = _problem_of(name)
    if problem:
        raise UsageError(
            f"A run cannot be called {name!r}: {problem}.",
            f"Use up to {MAX_NAME_LENGTH} letters, digits, blanks and - _ . + = @, starting with a letter or digit.",
        )
    return name


def _problem_of(name: str) -> str:
    if not name:
        return "the name is empty"
    if len(name) > MAX_NAME_LENGTH or len(name.encode("utf-8", errors="replace")) > 240:
        return f"it has {len(name)} characters"
    if name.lower() in RESERVED:
        return "this word has a meaning of its own"
    if is_run_id(name):
        return "it looks like the id of a run"
    strange = [character for character in name if not _is_allowed(character)]
    if strange:
        return f"it contains {strange[0]!r}"
    if not name[0].isalnum():
        return f"it starts with {name[0]!r}"
    return "it ends with a blank" if name[-1] == " " else ""


def _is_allowed(character: str) -> bool:
    """Letters of any language; nothing that means something to a shell, a path, a terminal or `RUN:CHECKPOINT`."""
    return character in " -_.+=@" or unicodedata.category(character)[0] in "LNM"


@dataclass(frozen=True)
class RunNames:
    root: Path

    @property
    def links(self) -> Path:
        return self.root / "by-name"

    def claim(self, name: str, run_id: str) -> bool:
        """Point `name` to the run; False when another run has it. Two claims at once: one wins."""
        self.links.mkdir(mode=0o700, exist_ok=True)
        link = self.links / name
        if link.is_symlink() and self.find(name) is None:
            link.unlink(missing_ok=True)  # its run was deleted by hand
        try:
            link.symlink_to(f"../{run_id}")
        except FileExistsError:
            return False
        fsync_directory(self.links)
        return True

    def release(self, name: str, run_id: str) -> None:
        """Take the name away from that run; another run's link stays."""
        if self.find(name) == run_id:
            (self.links / name).unlink(missing_ok=True)
            fsync_directory(self.links)

    def find(self, name: str) -> str | None:
        """Id of the run with that name, if it is there. Links that point anywhere else are not followed."""
        try:
            target = str((self.links / name).readlink())
        except (OSError, ValueError):
            return None
        run_id = target.removeprefix("../")
        return run_id if is_run_id(run_id) and (self.root / run_id).is_dir() else None

    def linked(self) -> set[str]:
        """Ids of all runs that a name points to, without checking that they exist."""
        found = set()
        for name in self.all():
            with contextlib.suppress(OSError):
                found.add(str((self.links / name).readlink()).removeprefix("../"))
        return found

    def name_of(self, run_id: str) -> str | None:
        return next((name for name in self.all() if self.find(name) == run_id), None)

    def all(self) -> list[str]:
        return sorted(link.name for link in self.links.iterdir()) if self.links.is_dir() else []
