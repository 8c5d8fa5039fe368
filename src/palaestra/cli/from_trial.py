"""`palaestra train --from-trial best [sweep=NAME] [key=value ...]`: a trial's settings, with the words laid over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palaestra.cli.words import read_words
from palaestra.config.overrides import nest, split_setting
from palaestra.core.errors import UsageError
from palaestra.runs.store import runs_root
from palaestra.sweeps.from_trial import find_trial
from palaestra.sweeps.order import flatten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.cli.words import Words

SWEEP_KEY = "sweep"


def read_words_from_trial(typed: Sequence[str], selector: str) -> tuple[Words, str]:
    """What is to be trained, and the trial it comes from, `NAME:3`; a key that is typed wins over the trial's."""
    rest = [word for word in typed if word.partition("=")[0] != SWEEP_KEY]
    sweeps = [split_setting(word)[1] for word in typed if word.partition("=")[0] == SWEEP_KEY]
    if len(sweeps) > 1:
        raise UsageError(f"'sweep' is set twice: '{sweeps[0]}' and '{sweeps[1]}'.", "Keep one of them.")
    words = read_words(rest)
    origin = find_trial(runs_root(), selector, sweeps[0] if sweeps else "")
    if words.recipe and words.recipe != origin.recipe:
        raise UsageError(
            f"Trial {origin.trial} trained '{origin.recipe}', not '{words.recipe}'.", "Leave the recipe out."
        )
    typed_keys = flatten(words.overrides)
    kept = {key: value for key, value in origin.settings.items() if not _is_replaced(key, typed_keys)}
    return replace(words, recipe=origin.recipe, overrides=nest({**kept, **typed_keys})), origin.trial


def _is_replaced(key: str, typed: dict[str, object]) -> bool:
    return any(key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.") for other in typed)
