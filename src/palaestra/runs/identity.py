"""What a run is called: an id for machines, a name for people."""

from __future__ import annotations

import random
import re
import secrets
import threading
import time
import unicodedata

from ulid import ULID

from palaestra.core.errors import UsageError

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
    """Seconds since 1970, as the id tells."""
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
    strange = [character for character in name if not _is_plain(character)]
    if strange:
        return f"it contains {strange[0]!r}"
    if not name[0].isalnum():
        return f"it starts with {name[0]!r}"
    return "it ends with a blank" if name[-1] == " " else ""


def _is_plain(character: str) -> bool:
    """Letters of any language; nothing that means something to a shell, a path, a terminal or `RUN:CHECKPOINT`."""
    return character in " -_.+=@" or unicodedata.category(character)[0] in "LNM"
