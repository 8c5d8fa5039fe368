"""A sweep at work: draws trials, hands their runs out, takes down what became of them, stops the hopeless ones.

The books are written before a run starts and after it ended; whoever comes after a crash finds each trial once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError
from palaestra.core.executor import LOCAL
from palaestra.core.run import RunState
from palaestra.runs.identity import RunNames
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.sweeps.fan_out import fan_out, find_slots
from palaestra.sweeps.methods import open_method
from palaestra.sweeps.order import is_done, make_order, prepare_run, slots_wanted
from palaestra.sweeps.pruning import is_worse_half
from palaestra.sweeps.results import curve_of, value_of
from palaestra.sweeps.store import SweepStore
from palaestra.sweeps.trial import Trial, TrialState, best_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from palaestra.config.train import TrainConfig
    from palaestra.core.run import RunRequest
    from palaestra.core.trials import TrialEnd, TrialOrder
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
        self._refuse_strangers(runs_root)
        for trial in list(self.trials):
            if trial.state is TrialState.LOST:
                trial = self._replace(replace(trial, state=TrialState.RUNNING, reason=""))
            if not trial.state.is_over:
                self._queue(trial)

    def next_order(self) -> TrialOrder | None:
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

    def ended(self, order: TrialOrder, end: TrialEnd, *, was_stopped: bool) -> None:
        trial = self.trials[self._trial_of[order.name]]
        directory = self._store.named(order.name)
        record = read_record(directory) if directory is not None else None
        if record is not None and record.state is RunState.FINISHED:
            self._conclude(trial)
        elif not trial.state.is_over and not was_stopped:
            own = "" if end.is_lost or record is None else record.failure
            reason = own or end.error or f"exit code {end.exit_code}"
            state = TrialState.LOST if end.is_lost else TrialState.FAILED
            self._settle(replace(trial, state=state, reason=reason))

    def continued(self, order: TrialOrder, end: TrialEnd) -> None:
        number = self.trials[self._trial_of[order.name]].number
        self._say(f"trial {number} starts again from its last checkpoint: {end.error}")

    def unwanted(self) -> list[str]:
        """Looks at how far the running trials have come."""
        changed = False
        for trial in [one for one in self.trials if not one.state.is_over]:
            curve = self._curve(trial)
            if curve != trial.curve:
                changed = True
                trial = self._replace(replace(trial, curve=curve))
            if self._plan.config.prune and is_worse_half(trial, self.trials, is_minimized=self._plan.is_minimized):
                self._settle(replace(trial, state=TrialState.PRUNED, value=curve[max(curve)]))
        if changed:
            self._write()
        return [name for name, index in self._trial_of.items() if self.trials[index].state.is_over]

    def _refuse_strangers(self, runs_root: Path) -> None:
        """A run that has the name of a trial to come was made by somebody else."""
        names = RunNames(runs_root).all()
        for number in range(len(self.trials) + 1, self._plan.trial_count + 1):
            for name, _ in self._plan.run_names(number):
                if name in names:
                    hint = f"Choose another name with sweep=NAME, or: palaestra runs rm {name}"
                    raise UsageError(f"There is already a run called '{name}', and no trial of this sweep.", hint)

    def _queue(self, trial: Trial) -> None:
        """Those of its runs that are not finished; with none left the trial is over."""
        submitted_by = f"sweep:{self._plan.name}:{trial.number}"
        asked = []
        try:
            settings = self._plan.settings_of(trial.settings)
            for name, seed in self._plan.run_names(trial.number):
                own = settings if seed is None else {**settings, "seed": seed}
                asked.append(prepare_run(self._plan.config.recipe, own, name, submitted_by))
        except UsageError as error:  # suggested values that do not go together
            self._settle(replace(trial, state=TrialState.FAILED, reason=str(error)))
            return
        left = [pair for pair in asked if not is_done(self._store, *pair)]
        self._waiting += left
        self._trial_of |= {request.name: trial.number - 1 for request, _ in asked}
        if not left:
            self._conclude(trial)

    def _conclude(self, trial: Trial) -> None:
        """Once all its runs are finished: the mean of what they are worth."""
        directories = [self._store.named(name) for name, _ in self._plan.run_names(trial.number)]
        found = [one for one in directories if one is not None and read_record(one).state is RunState.FINISHED]
        if trial.state.is_over or len(found) < len(directories):
            return
        curve = self._curve(trial)
        values = [value_of(one, self._plan.config.metric) for one in found]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            reason = f"its run has no value of '{self._plan.config.metric}'"
            self._settle(replace(trial, state=TrialState.FAILED, curve=curve, reason=reason))
        else:
            self._settle(replace(trial, state=TrialState.FINISHED, curve=curve, value=fmean(known)))

    def _curve(self, trial: Trial) -> dict[int, float]:
        """The mean over its runs, at those tenths that all have reached."""
        curves = []
        for name, _ in self._plan.run_names(trial.number):
            run_id = RunNames(self._store.root).find(name)  # by its link alone: this is asked twice a second
            if run_id is None:
                return {}
            directory = self._store.directory(run_id)
            steps = read_record(directory).total_steps
            curves.append(curve_of(directory, self._plan.config.metric, steps))
        shared = set.intersection(*(set(curve) for curve in curves))
        return {tenth: fmean(curve[tenth] for curve in curves) for tenth in sorted(shared)}

    def _settle(self, trial: Trial) -> None:
        """A trial is over: its other runs are not wanted, whoever looks at the books finds its end."""
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
    """To its end, or until a signal; the same call again goes on."""
    method, open_slots = open_method(plan), find_slots(executor)
    directory = SweepStore(runs_root).enter(plan.config)
    with directory.held():
        search = Search(plan, directory, method, runs_root, say)
        interrupted = fan_out(open_slots(slots_wanted(plan.example(), slots)), search)
    best = best_of(search.trials, is_minimized=plan.is_minimized)
    is_lost = any(trial.state is TrialState.LOST for trial in search.trials)
    code = interrupted or int(best is None or is_lost)
    return SweepOutcome(plan, tuple(search.trials), best, code)
