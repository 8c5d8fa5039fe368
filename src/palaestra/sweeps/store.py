"""Sweeps on disk: `RUNS/.sweeps/NAME/` with `sweep.yaml`, `trials.json` (the table of trials) and `logs/`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from palaestra.config.resolve import resolve_config
from palaestra.config.sweep import SweepConfig
from palaestra.core.errors import DamagedFile, NotFound, PalaestraError, UsageError, did_you_mean
from palaestra.runs.documents import diff_configs, format_differences
from palaestra.runs.files import read_json, read_yaml, stamped, unstamped, write_json, write_yaml
from palaestra.runs.lock import AlreadyHeld, hold
from palaestra.sweeps.order import hidden_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA_VERSION = 1
LATEST = "latest"
MAY_GROW = {"trials"}  # settings that may differ when a sweep is resumed


@dataclass(frozen=True)
class SweepDirectory:
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def sweep_file(self) -> Path:
        return self.path / "sweep.yaml"

    @property
    def trials_file(self) -> Path:
        return self.path / "trials.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Locks the sweep for the block's duration; the kernel releases the lock of a killed process."""
        try:
            with hold(self.path / ".lock"):
                yield
        except AlreadyHeld as error:
            who = f"process {error.pid}" if error.pid else "another process"
            raise UsageError(f"The sweep '{self.name}' is being run by {who}.", "Wait for it, or stop it.") from error

    def write_config(self, config: SweepConfig) -> None:
        write_yaml(self.sweep_file, stamped(config.model_dump(mode="json"), SCHEMA_VERSION))

    def read_config(self) -> SweepConfig:
        data = unstamped(read_yaml(self.sweep_file), SCHEMA_VERSION, self.sweep_file)
        try:
            return resolve_config(SweepConfig, None, data)
        except UsageError as error:
            raise DamagedFile(f"{self.sweep_file} does not describe a sweep: {error}") from error

    def write_trials(self, trials: list[Trial]) -> None:
        write_json(self.trials_file, stamped({"trials": [asdict(trial) for trial in trials]}, SCHEMA_VERSION))

    def read_trials(self) -> list[Trial]:
        """All trials, in the order of their numbers."""
        try:
            data = unstamped(read_json(self.trials_file), SCHEMA_VERSION, self.trials_file)
        except NotFound:
            return []
        try:
            trials = [_decode(entry) for entry in data["trials"]]
            if [trial.number for trial in trials] != list(range(1, len(trials) + 1)):
                raise ValueError("their numbers have gaps")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedFile(f"{self.trials_file} does not hold trials ({error}).") from error
        return trials


class SweepStore:
    def __init__(self, runs_root: Path) -> None:
        self._root = hidden_directory(runs_root)

    def enter(self, config: SweepConfig) -> SweepDirectory:
        """Creates or opens the sweep; refuses a different configuration under its name."""
        directory = SweepDirectory(self._root / config.name)
        if not directory.sweep_file.exists():
            directory.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.write_config(config)
            return directory
        stored = directory.read_config()
        before, now = (one.model_dump(mode="json", exclude=MAY_GROW) for one in (stored, config))
        differences = diff_configs(before, now)
        if differences:
            raise UsageError(
                f"The sweep '{config.name}' has a different configuration:\n{format_differences(differences)}\n",
                "Choose another name with sweep=NAME.",
            )
        if stored.trials != config.trials:
            directory.write_config(config)
        return directory

    def find(self, name: str) -> SweepDirectory:
        """The sweep of that name, or the latest."""
        names = self.names()
        if name == LATEST and names:
            return SweepDirectory(self._root / names[0])
        if name not in names:
            hint = did_you_mean(name, names) or (f"Known: {', '.join(names)}." if names else "There are none yet.")
            raise NotFound(f"No sweep named '{name}' in {self._root}.", hint)
        return SweepDirectory(self._root / name)

    def names(self) -> list[str]:
        """All sweeps, latest first."""
        found = [path.parent for path in self._root.glob("*/sweep.yaml")]
        return [path.name for path in sorted(found, key=_touched_at, reverse=True)]

    def list(self) -> list[tuple[SweepDirectory, SweepConfig | None, list[Trial], str]]:
        """Each with its config and trials, or with the error in its files."""
        return [_read_sweep(SweepDirectory(self._root / name)) for name in self.names()]


def _read_sweep(directory: SweepDirectory) -> tuple[SweepDirectory, SweepConfig | None, list[Trial], str]:
    try:
        return directory, directory.read_config(), directory.read_trials(), ""
    except PalaestraError as error:
        return directory, None, [], str(error)


def _touched_at(path: Path) -> tuple[float, str]:
    files = (path / "trials.json", path / "sweep.yaml")
    return max(file.stat().st_mtime for file in files if file.exists()), path.name


def _decode(entry: dict[str, Any]) -> Trial:
    value = entry["value"]
    return Trial(
        number=int(entry["number"]),
        settings=dict(entry["settings"]),
        state=TrialState(entry["state"]),
        value=None if value is None else float(value),
        curve={int(tenth): float(number) for tenth, number in entry["curve"].items()},
        reason=str(entry["reason"]),
    )


class TrialState(StrEnum):
    RUNNING = "running"  # its runs wait, train, or are to be continued
    FINISHED = "finished"
    PRUNED = "pruned"  # stopped early, because others were better
    FAILED = "failed"
    LOST = "lost"  # with its machine, after the last restart; the next start of the sweep continues it

    @property
    def is_over(self) -> bool:
        return self is not TrialState.RUNNING


@dataclass(frozen=True)
class Trial:
    number: int  # from 1
    settings: dict[str, Any]  # dotted key -> value
    state: TrialState = TrialState.RUNNING
    value: float | None = None  # of the metric; None: not known, never 0 for that
    curve: dict[int, float] = field(default_factory=dict)  # tenth of the steps -> the metric there
    reason: str = ""  # why it failed or was lost


def best_of(trials: list[Trial], *, is_minimized: bool) -> Trial | None:
    """The finished trial with the best value; of equal ones the first."""
    ranked = ranking(trials, is_minimized=is_minimized)
    return ranked[0] if ranked and ranked[0].state is TrialState.FINISHED else None


def ranking(trials: list[Trial], *, is_minimized: bool) -> list[Trial]:
    """Finished trials from the best to the worst, then the others; those without a value last."""

    def sort_key(trial: Trial) -> tuple[bool, bool, float, int]:
        value = trial.value if trial.value is not None else 0.0
        is_finished = trial.state is TrialState.FINISHED
        return not is_finished, trial.value is None, value if is_minimized else -value, trial.number

    return sorted(trials, key=sort_key)
