"""What every handler may use: the daemon, authentication, and facts about runs."""

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
    from palaestra.web.security.origin import ServerAddress
    from palaestra.web.security.tokens import TokenFile
MAX_CONFIG_BYTES = 1 << 20
SEED_LINE = re.compile(r"^seed: *(-?\d+)$", re.MULTILINE)
ENV_SECTION = re.compile(r"^env:\n((?:[ ]+.*\n)+)", re.MULTILINE)
ID_LINE = re.compile(r"^  id: *(.+)$", re.MULTILINE)
ARGUMENTS_SECTION = re.compile(r"^settings:\n((?:[ ]+.*\n?)+)", re.MULTILINE)  # of a script
SEED_ARGUMENT = re.compile(r"^  seed: *(-?\d+)$", re.MULTILINE)
ENV_ARGUMENT = re.compile(r"^  env_id: *(.+)$", re.MULTILINE)
ARGV_SECTION = re.compile(r"^argv:(?: \[\]\n|\n(?:- .*\n)+)", re.MULTILINE)  # the same arguments as a list


@dataclass(frozen=True)
class RunFacts:
    """What a list shows of a run beyond its status. Empty for a run without a config."""

    seed: int | None = None
    env: str | None = None
    group: str = ""  # equal for runs whose configs differ only in the seed


class RunFactsCache:
    """Facts and annotations of runs, read once for each run. Thread-safe."""

    def __init__(self) -> None:
        self.boot = secrets.token_hex(8)  # each daemon numbers its events from 1; with this a number is unique
        self.started_at = time.time()
        self._lock = threading.Lock()
        self._facts: dict[str, RunFacts] = {}
        self._annotations: dict[str, Annotations] = {}

    def facts(self, directory: RunDirectory) -> RunFacts:
        found = self._facts.get(directory.id)
        if found is None:
            found = self._facts[directory.id] = read_run_facts(directory)
        return found

    def annotations(self, directory: RunDirectory) -> Annotations:
        found = self._annotations.get(directory.id)
        if found is None:
            found = self._annotations[directory.id] = read_annotations(directory)
        return found

    def annotate(self, directory: RunDirectory, annotations: Annotations) -> None:
        with self._lock:
            write_annotations(directory, annotations)
            self._annotations[directory.id] = annotations

    def invalidate(self, run_id: str) -> None:
        with self._lock:
            self._facts.pop(run_id, None)
            self._annotations.pop(run_id, None)


def read_run_facts(directory: RunDirectory) -> RunFacts:
    """Reads seed, environment and group without parsing YAML: a list shows a thousand runs."""
    try:
        with directory.config_file.open("rb") as stream:
            text = stream.read(MAX_CONFIG_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return RunFacts()
    arguments = ARGUMENTS_SECTION.search(text)
    if arguments is not None:
        seed, env = SEED_ARGUMENT.search(arguments.group(1)), ENV_ARGUMENT.search(arguments.group(1))
        same = SEED_ARGUMENT.sub("", ARGV_SECTION.sub("", text))
    else:
        section = ENV_SECTION.search(text)
        seed, env = SEED_LINE.search(text), ID_LINE.search(section.group(1)) if section else None
        same = SEED_LINE.sub("", text)
    group = hashlib.sha256(same.encode()).hexdigest()[:16]
    return RunFacts(int(seed.group(1)) if seed else None, _scalar(env.group(1)) if env else None, group)


def _scalar(text: str) -> str | None:
    try:
        return str(parse_yaml(text))
    except DamagedFile:
        return None


@dataclass(frozen=True)
class AppContext:
    """What every handler gets."""

    daemon: Daemon
    token: TokenFile
    codes: LoginCodes
    address: ServerAddress
    run_facts: RunFactsCache = field(default_factory=RunFactsCache)
    services: dict[str, Any] = field(default_factory=dict)  # state of lifespans, by name
