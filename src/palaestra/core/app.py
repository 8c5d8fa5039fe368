"""What an application (group `palaestra.apps`) adds: commands, replays, games, evaluation suites and more.

An entry point of the group names an `App`. Its module imports nothing heavy: `palaestra --help` loads it. The parts are
references, "package.module:object", which are imported when they are used; a light object may stand there itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Mapping

    import numpy as np

    from palaestra.core.spaces import EnvInterface

    OtherPlayers = Callable[[np.ndarray | dict[str, np.ndarray]], np.ndarray]  # observations [players, …] to actions
    PlayerFactory = Callable[[EnvInterface, int, int], OtherPlayers]  # spaces of one player, player count, seed
    Parts = Mapping[str, Any]  # name -> reference or object


@dataclass(frozen=True)
class App:
    """The parts of an application, by kind and name; `palaestra.core.plugins` finds and loads them."""

    commands: Parts = field(default_factory=dict)  # command -> CommandPlugin
    replays: Parts = field(default_factory=dict)  # `kind` of a replay file -> function (path) -> Replay
    recorders: Parts = field(default_factory=dict)  # env id -> function that records a batch, see evaluation/replays.py
    games: Parts = field(default_factory=dict)  # env id -> function (kwargs, agent, seed, make_others) -> Game
    catalogues: Parts = field(default_factory=dict)  # name -> palaestra.core.catalogue.Catalogue
    scanners: Parts = field(default_factory=dict)  # worker kind -> function (checkout, runs_root) -> scripts found
    external_policies: Parts = field(default_factory=dict)  # worker kind -> class that plays its checkpoints
    suites: Parts = field(default_factory=dict)  # name -> EvaluationConfig, or a mapping with its keys
    script_families: Parts = field(default_factory=dict)  # name -> module of a script launcher's family, not imported


@dataclass(frozen=True)
class CommandResult:
    """What a command returns. `data` is for programs; the table and the notes are for people."""

    data: dict[str, Any]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    notes: tuple[str, ...] = field(default=())  # lines for stderr, after the table
    exit_code: int = 0


@dataclass(frozen=True)
class CommandPlugin:
    """A command of an application. The command line lists it in --help, parses its arguments and prints its result."""

    summary: str
    examples: tuple[str, str, str]
    add_arguments: Callable[[ArgumentParser], None]  # `--json` is there already
    work: str  # "package.module:function"; Namespace -> CommandResult


class Replay(Protocol):
    """A recorded episode that can be shown in a terminal."""

    @property
    def length(self) -> int:
        """Number of steps. States are counted from 0 (the initial state) to `length`."""

    def summary(self) -> dict[str, Any]:
        """Facts about the whole episode, for people and for JSON."""

    def text_at(
        self, step: int, *, color: bool, columns: int | None = None, lines: int | None = None, follow: int | None = None
    ) -> str:
        """The state after `step` steps as text of at most this size; `follow`: the agent to centre on."""

    def status_at(self, step: int) -> str:
        """One line about the state after `step` steps."""


class Game(Protocol):
    """An episode in which a person plays one agent with the keyboard.

    The part `games` of an `App` makes one from `(kwargs: dict, agent: int, seed: int, make_others: PlayerFactory |
    None)`; without `make_others` the other agents act at random.
    """

    @property
    def keys(self) -> Mapping[str, int]:
        """From the name of a key ("up", "space", "w") to an action."""

    @property
    def help(self) -> str:
        """One line about the keys."""

    @property
    def is_over(self) -> bool: ...

    def play(self, action: int) -> None:
        """Advances one step with the person's action and the actions of all other agents."""

    def text(self, *, color: bool, columns: int, lines: int) -> str: ...

    def status(self) -> str:
        """One line: step, reward, inventory."""

    def summary(self) -> dict[str, Any]: ...


def resolve_reference(reference: Any) -> Any:
    """Imports the object that "package.module:object" names; anything but a string is the object itself."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name) if name else import_module(module)
