"""What every handler may use: the daemon, and who may come in."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palaestra.config.yaml import parse_yaml
from palaestra.core.errors import DamagedFile
from palaestra.runs.annotations import Annotations, read_annotations, write_annotations

if TYPE_CHECKING:
    from palaestra.daemon.service import Daemon
    from palaestra.runs.directory import RunDirectory
    from palaestra.web.security.login import LoginCodes
    from palaestra.web.security.origin import Place
    from palaestra.web.security.tokens import TokenFile
MOST_BYTES = 1 << 20
SEED_LINE = re.compile(r"^seed: *(-?\d+)$", re.MULTILINE)
ENV_SECTION = re.compile(r"^env:\n((?:[ ]+.*\n)+)", re.MULTILINE)
ID_LINE = re.compile(r"^  id: *(.+)$", re.MULTILINE)
ARGUMENTS_SECTION = re.compile(r"^settings:\n((?:[ ]+.*\n?)+)", re.MULTILINE)  # of a script
SEED_ARGUMENT = re.compile(r"^  seed: *(-?\d+)$", re.MULTILINE)
ENV_ARGUMENT = re.compile(r"^  env_id: *(.+)$", re.MULTILINE)
ARGV_SECTION = re.compile(r"^argv:(?: \[\]\n|\n(?:- .*\n)+)", re.MULTILINE)  # the same arguments once more, as words


@dataclass(frozen=True)
class Facts:
    seed: int | None = None
    env: str | None = None
    group: str = ""  # equal for runs whose configs differ in nothing but the seed


class FactBook:
    """Any thread may ask."""

    def __init__(self) -> None:
        self.boot = secrets.token_hex(8)  # news are numbered from 1 by each daemon; with this a number is unique
        self.started_at = time.time()
        self._guard = threading.Lock()
        self._facts: dict[str, Facts] = {}
        self._annotations: dict[str, Annotations] = {}

    def facts(self, directory: RunDirectory) -> Facts:
        found = self._facts.get(directory.id)
        if found is None:
            found = self._facts[directory.id] = read_facts(directory)
        return found

    def annotations(self, directory: RunDirectory) -> Annotations:
        found = self._annotations.get(directory.id)
        if found is None:
            found = self._annotations[directory.id] = read_annotations(directory)
        return found

    def annotate(self, directory: RunDirectory, annotations: Annotations) -> None:
        with self._guard:
            write_annotations(directory, annotations)
            self._annotations[directory.id] = annotations

    def forget(self, run_id: str) -> None:
        with self._guard:
            self._facts.pop(run_id, None)
            self._annotations.pop(run_id, None)


def read_facts(directory: RunDirectory) -> Facts:
    """Nothing is known of a config that is not there."""
    try:
        with directory.config_file.open("rb") as stream:
            text = stream.read(MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return Facts()
    arguments = ARGUMENTS_SECTION.search(text)
    if arguments is not None:
        seed, env = SEED_ARGUMENT.search(arguments.group(1)), ENV_ARGUMENT.search(arguments.group(1))
        same = SEED_ARGUMENT.sub("", ARGV_SECTION.sub("", text))
    else:
        section = ENV_SECTION.search(text)
        seed, env = SEED_LINE.search(text), ID_LINE.search(section.group(1)) if section else None
        same = SEED_LINE.sub("", text)
    group = hashlib.sha256(same.encode()).hexdigest()[:16]
    return Facts(int(seed.group(1)) if seed else None, _scalar(env.group(1)) if env else None, group)


def _scalar(text: str) -> str | None:
    try:
        return str(parse_yaml(text))
    except DamagedFile:
        return None


@dataclass(frozen=True)
class House:
    daemon: Daemon
    token: TokenFile
    codes: LoginCodes
    place: Place
    book: FactBook = field(default_factory=FactBook)
    rooms: dict[str, Any] = field(default_factory=dict)  # what lifespans keep for handlers, by a name
