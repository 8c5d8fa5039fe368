"""Runs a sweep: chooses the settings of trials, starts their runs, records results, and prunes.

The table of trials is written before a run starts and after it ends, so a sweep can be resumed after a crash.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import NotFound, UsageError
from palaestra.core.executor import LOCAL
from palaestra.core.run import RunState
from palaestra.runs.identity import RunNames
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.sweeps.methods import is_worse_half, open_method
from palaestra.sweeps.order import is_done, make_order, prepare_run, slot_request
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.results import curve_of, value_of
from palaestra.sweeps.scheduler import find_slots, run_trials
from palaestra.sweeps.store import LATEST, SweepStore, Trial, TrialState, best_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.config.train import TrainConfig
    from palaestra.core.run import RunRequest
    from palaestra.core.trials import TrialRequest, TrialResult
    from palaestra.sweeps.methods import Method
    from palaestra.sweeps.plan import SweepPlan
    from palaestra.sweeps.store import SweepDirectory


@dataclass(frozen=True)
class SweepOutcome:
    plan: SweepPlan
    trials: tuple[Trial, ...]
    best: Trial | None
    exit_code: int


class Search:
    """The work of `fan_out`."""

    def __init__(
        self, plan: SweepPlan, directory: SweepDirectory, method: Method, runs_root: Path, say: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._directory = directory
        self._method = method
        self._store = RunStore(runs_root)
        self._say = say
        self.trials = directory.read_trials()
        self._waiting: deque[tuple[RunRequest, TrainConfig]] = deque()
        self._trial_of: dict[str, int] = {}  # run's name -> index of its trial
        self._refuse_name_conflicts(runs_root)
        for trial in list(self.trials):
            if trial.state is TrialState.LOST:
                trial = self._replace(replace(trial, state=TrialState.RUNNING, reason=""))
            if not trial.state.is_over:
                self._queue(trial)

    def next_order(self) -> TrialRequest | None:
        while not self._waiting:
            if len(self.trials) >= self._plan.trial_count:
                return None
            settings = self._method.next_settings(self.trials)
            if settings is None:
                return None
            trial = Trial(len(self.trials) + 1, settings)
            self.trials.append(trial)
            self._write()
            self._queue(trial)
        request, config = self._waiting.popleft()
        return make_order(request, config, self._store.root, self._directory.logs)

    def on_result(self, order: TrialRequest, end: TrialResult, *, was_stopped: bool) -> None:
        trial = self.trials[self._trial_of[order.name]]
        directory = self._store.named(order.name)
        record = read_record(directory) if directory is not None else None
        if record is not None and record.state is RunState.FINISHED:
            self._score(trial)
        elif not trial.state.is_over and not was_stopped:
            own = "" if end.is_lost or record is None else record.failure
            reason = own or end.error or f"exit code {end.exit_code}"
            state = TrialState.LOST if end.is_lost else TrialState.FAILED
            self._finish(replace(trial, state=state, reason=reason))

    def on_restart(self, order: TrialRequest, end: TrialResult) -> None:
        number = self.trials[self._trial_of[order.name]].number
        self._say(f"trial {number} starts again from its last checkpoint: {end.error}")

    def names_to_stop(self) -> list[str]:
        """Updates the curves of the running trials and prunes."""
        changed = False
        for trial in [one for one in self.trials if not one.state.is_over]:
            curve = self._curve(trial)
            if curve != trial.curve:
                changed = True
                trial = self._replace(replace(trial, curve=curve))
            if self._plan.config.prune and is_worse_half(trial, self.trials, is_minimized=self._plan.is_minimized):
                self._finish(replace(trial, state=TrialState.PRUNED, value=curve[max(curve)]))
        if changed:
            self._write()
        return [name for name, index in self._trial_of.items() if self.trials[index].state.is_over]

    def _refuse_name_conflicts(self, runs_root: Path) -> None:
        """Refuses names of future trials that other runs have."""
        names = RunNames(runs_root).all()
        for number in range(len(self.trials) + 1, self._plan.trial_count + 1):
            for name, _ in self._plan.run_names(number):
                if name in names:
                    hint = f"Choose another name with sweep=NAME, or: palaestra runs rm {name}"
                    raise UsageError(f"The run '{name}' exists and is no trial of this sweep.", hint)

    def _queue(self, trial: Trial) -> None:
        """Queues the unfinished runs of a trial; without any the trial is finished."""
        submitted_by = f"sweep:{self._plan.name}:{trial.number}"
        requested = []
        try:
            settings = self._plan.settings_of(trial.settings)
            for name, seed in self._plan.run_names(trial.number):
                own = settings if seed is None else {**settings, "seed": seed}
                requested.append(prepare_run(self._plan.config.recipe, own, name, submitted_by))
        except UsageError as error:  # suggested values that do not fit together
            self._finish(replace(trial, state=TrialState.FAILED, reason=str(error)))
            return
        left = [pair for pair in requested if not is_done(self._store, *pair)]
        self._waiting += left
        self._trial_of |= {request.name: trial.number - 1 for request, _ in requested}
        if not left:
            self._score(trial)

    def _score(self, trial: Trial) -> None:
        """Once all its runs are finished: the mean of their values."""
        directories = [self._store.named(name) for name, _ in self._plan.run_names(trial.number)]
        found = [one for one in directories if one is not None and read_record(one).state is RunState.FINISHED]
        if trial.state.is_over or len(found) < len(directories):
            return
        curve = self._curve(trial)
        values = [value_of(one, self._plan.config.metric) for one in found]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            reason = f"its run has no value of '{self._plan.config.metric}'"
            self._finish(replace(trial, state=TrialState.FAILED, curve=curve, reason=reason))
        else:
            self._finish(replace(trial, state=TrialState.FINISHED, curve=curve, value=fmean(known)))

    def _curve(self, trial: Trial) -> dict[int, float]:
        """The mean over its runs, at the tenths that all have reached."""
        curves = []
        for name, _ in self._plan.run_names(trial.number):
            run_id = RunNames(self._store.root).find(name)  # by its link alone: this is called twice a second
            if run_id is None:
                return {}
            directory = self._store.directory(run_id)
            steps = read_record(directory).total_steps
            curves.append(curve_of(directory, self._plan.config.metric, steps))
        shared = set.intersection(*(set(curve) for curve in curves))
        return {tenth: fmean(curve[tenth] for curve in curves) for tenth in sorted(shared)}

    def _finish(self, trial: Trial) -> None:
        """Ends a trial: its other runs are dropped, and the table shows its state."""
        self._replace(trial)
        self._waiting = deque(pair for pair in self._waiting if self._trial_of[pair[0].name] != trial.number - 1)
        self._write()
        over = sum(one.state.is_over for one in self.trials)
        worth = f", {self._plan.config.metric} {trial.value:.4g}" if trial.value is not None else ""
        why = f": {trial.reason}" if trial.reason else ""
        self._say(f"trial {trial.number} {trial.state}{worth}{why}; {over} of {self._plan.trial_count}")

    def _replace(self, trial: Trial) -> Trial:
        self.trials[trial.number - 1] = trial
        return trial

    def _write(self) -> None:
        self._directory.write_trials(self.trials)


def run_sweep(
    plan: SweepPlan,
    runs_root: Path,
    *,
    slots: int | None = None,
    executor: str = LOCAL,
    say: Callable[[str], None] = lambda _line: None,
) -> SweepOutcome:
    """Runs a sweep to its end or until a signal; the same call resumes it."""
    method, open_slots = open_method(plan), find_slots(executor)
    directory = SweepStore(runs_root).enter(plan.config)
    with directory.held():
        search = Search(plan, directory, method, runs_root, say)
        interrupted = run_trials(open_slots(slot_request(plan.example(), slots)), search)
    best = best_of(search.trials, is_minimized=plan.is_minimized)
    is_lost = any(trial.state is TrialState.LOST for trial in search.trials)
    code = interrupted or int(best is None or is_lost)
    return SweepOutcome(plan, tuple(search.trials), best, code)


BEST = "best"


@dataclass(frozen=True)
class WarmStart:
    """The trial that settings were taken from."""

    trial: str  # for example "lr:3"
    recipe: str
    settings: dict[str, Any]  # dotted key -> value: what was the same in all trials, and what this one tried


def find_trial(runs_root: Path, selector: str, sweep: str = "") -> WarmStart:
    """`best`, `3`, `NAME:best` or `NAME:3`; without a name, the latest sweep."""
    named, colon, which = selector.rpartition(":")
    if named and sweep and named != sweep:
        raise UsageError(f"'{selector}' names one sweep, sweep={sweep} another.", "Keep one of them.")
    if not colon and selector != BEST and not selector.isdigit():
        hint = "Write best, a trial's number, NAME:best or NAME:3."
        raise UsageError(f"Invalid trial: '{selector}'.", hint)
    directory = SweepStore(runs_root).find(named or sweep or LATEST)
    plan, trials = plan_sweep(directory.read_config()), directory.read_trials()
    if which == BEST:
        best = best_of(trials, is_minimized=plan.is_minimized)
        if best is None:
            raise NotFound(
                f"No trial of the sweep '{plan.name}' is finished.", f"See 'palaestra sweep show {plan.name}'."
            )
        number = best.number
    elif which.isascii() and which.isdigit() and 1 <= int(which[:9]) <= len(trials):
        number = int(which)
    else:
        raise NotFound(f"The sweep '{plan.name}' has no trial '{which}'.", f"It has 1 to {len(trials)}, and best.")
    return WarmStart(f"{plan.name}:{number}", plan.config.recipe, {**plan.fixed, **trials[number - 1].settings})
