"""What can be shown on a terminal, step by step: a recorded episode, and a world that a person plays in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from palaestra.core.spaces import EnvInterface

    Others = Callable[[np.ndarray | dict[str, np.ndarray]], np.ndarray]  # observations [players, …] to actions
    Hire = Callable[[EnvInterface, int, int], Others]  # given what a player sees and does, how many there are, a seed


class Replay(Protocol):
    """Plugins of the group `palaestra.replays` have the name of a `kind` of files; they make one of these of a path."""

    @property
    def length(self) -> int:
        """Steps; states are counted from 0, how the episode began, to `length`"""

    def summary(self) -> dict[str, Any]:
        """What there is to say of the whole, for people and for JSON"""

    def text_at(
        self, step: int, *, color: bool, columns: int | None = None, lines: int | None = None, follow: int | None = None
    ) -> str:
        """The state after `step` steps, within so many columns and lines; `follow`: around whom, if not all fits"""

    def status_at(self, step: int) -> str:
        """One line"""


class Game(Protocol):
    """Plugins of the group `palaestra.games` are named like the id of an environment and make one of these.

    They are called with `(kwargs: dict, agent: int, seed: int, hire: Hire | None)`; without `hire` the others play at
    random.
    """

    @property
    def keys(self) -> Mapping[str, int]:
        """From the name of a key ("up", "space", "w") to an action"""

    @property
    def help(self) -> str:
        """One line about the keys"""

    @property
    def is_over(self) -> bool: ...

    def play(self, action: int) -> None:
        """One step: the person's action, and everybody else's"""

    def text(self, *, color: bool, columns: int, lines: int) -> str: ...

    def status(self) -> str:
        """One line: step, reward, what one carries"""

    def summary(self) -> dict[str, Any]: ...
