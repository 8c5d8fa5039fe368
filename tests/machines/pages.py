"""Reads from a page of the documentation which commands run on which machine.

A comment before a block says where it runs. Blocks without such a comment are not run.

    <!-- machine: head -->                     one command after another on the head
    <!-- machine: worker, background -->       stays in the foreground there; the reader opens another terminal
    <!-- machine: each -->                     first line on the head, second on the worker, at the same time
    <!-- machine: head, copies the token -->   the head's token file goes to the other machines
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.machines.cluster import copy_token, wait_for_text
from tests.machines.machines import MachineError, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.machines.machines import Job, Machine

MARKED = re.compile(r"^<!-- machine: ([^\n]*?) -->\n+```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESSES = {"10.0.0.1": "head", "10.0.0.5": "head", "10.0.0.2": "worker", "10.0.0.6": "worker"}
COMMAND_SECONDS = 400.0


@dataclass(frozen=True)
class Step:
    machine: str
    note: str  # "", "background" or "copies the token"
    command: tuple[str, ...]

    @property
    def is_background(self) -> bool:
        return self.note == "background"


def read_steps(text: str) -> list[Step]:
    """All marked commands of a page, in order."""
    steps = []
    for marker, language, block in MARKED.findall(text):
        where, _, note = marker.partition(",")
        commands = read_commands(block, is_console=language == "console")
        for number, command in enumerate(commands):
            if where.strip() == "each":
                is_last = number == len(commands) - 1
                steps.append(Step(["head", "worker"][number], "" if is_last else "background", command))
            else:
                steps.append(Step(where.strip(), note.strip(), command))
    return steps


def read_commands(block: str, *, is_console: bool) -> list[tuple[str, ...]]:
    lines = block.replace("\\\n", " ").splitlines()
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ") or not is_console]
    return [tuple(arguments) for line in typed if (arguments := shlex.split(line, comments=True))]


def with_addresses(command: tuple[str, ...], machines: dict[str, Machine]) -> list[str]:
    """The command with the addresses of these machines in place of the page's."""

    def replace(word: str) -> str:
        return re.sub(r"10\.0\.0\.\d+", lambda found: machines[ADDRESSES[found[0]]].address, word)

    return [replace(word) for word in command]


def follow(page: Path, machines: dict[str, Machine]) -> list[Job]:
    """Run every marked command of the page in order; returns those of the background that are still to end."""
    background = []
    for step in read_steps(page.read_text()):
        machine = machines[step.machine]
        command = with_addresses(step.command, machines)
        if step.note == "copies the token":
            copy_token(machine, *(other for other in machines.values() if other is not machine))
            continue
        variables = dict(word.partition("=")[::2] for word in command if re.fullmatch(r"[A-Z_]+=.*", word))
        job = machine.start(command[len(variables) :], variables)
        if step.is_background:
            background.append(job)
            if "worker" in command:
                wait_for_text(job, "6379")
            continue
        if job.wait(COMMAND_SECONDS) != 0:
            others = "\n".join(other.out + other.err for other in background)
            raise MachineError(f"{step.machine}: {shlex.join(command)}\n{job.out}{job.err}\nbackground:\n{others}")
    return background


def end_background(jobs: list[Job]) -> None:
    """Trainings end by themselves and well; workers of Ray stay until they are told to leave."""
    for job in jobs:
        if job.command[0] == "torchrun":
            assert job.wait(COMMAND_SECONDS) == 0, job.out + job.err
        else:
            assert not job.has_ended, job.out + job.err
            job.kill()
            wait_until(lambda job=job: job.has_ended, "the end of a worker")
