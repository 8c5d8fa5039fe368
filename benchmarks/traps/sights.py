"""Defects of what is shown and told: metrics, rates, signals."""

from __future__ import annotations

from traps.plant import plant

PLANTS = (
    plant(
        33,
        "without an episode its return is 0",
        (
            "loggers/samples.py",
            "    if not episodes:\n        return {}\n",
            "    if not episodes:\n        return {return_name: 0.0, length_name: 0.0}\n",
        ),
    ),
    plant(
        34,
        "every layer is analysed after every update",
        (
            "training/trainer.py",
            "if is_due(state.config.analyze_weights_interval, state.iteration - 1, state.iteration):",
            "if state.config.analyze_weights_interval >= 0:",
        ),
    ),
    plant(
        34,
        "every sample is made durable",
        (
            "runs/metrics/writer.py",
            "        self._last_sample += len(samples)\n",
            "        self._last_sample += len(samples)\n        self.flush()\n",
        ),
    ),
    plant(
        35,
        "the rate counts from step 0",
        ("loggers/status.py", "deque([(clock.monotonic(), first_step)])", "deque([(clock.monotonic(), 0)])"),
    ),
    plant(
        36,
        "a stopped run exits with 0",
        ("runner/train.py", "signal.Signals(number).name, exit_code_of(number))", "signal.Signals(number).name, 0)"),
    ),
    plant(
        36,
        "a stopped run is not saved",
        (
            "runner/loop.py",
            "                self._save_the_end()\n",
            (
                "                if self._state.env_steps >= self._config.total_steps:\n"
                "                    self._save_the_end()\n"
            ),
        ),
    ),
)
