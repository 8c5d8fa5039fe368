"""Arguments of `palaestra sweep`: settings of the sweep, values to try, and settings of all trials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cli.arguments import parse_train_arguments, split_target
from palaestra.config.overrides import nest, parse_overrides, split_setting
from palaestra.config.resolve import resolve_config
from palaestra.config.sweep import SweepConfig
from palaestra.config.train import TrainConfig
from palaestra.config.yaml import read_yaml
from palaestra.core.errors import NotFound, UsageError, did_you_mean
from palaestra.runs.store import runs_root
from palaestra.sweeps.order import flatten
from palaestra.sweeps.search import find_trial
from palaestra.sweeps.space import parse_parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.cli.arguments import TrainArguments

SWEEP_KEY, EXECUTOR_KEY = "sweep", "executor"
FILE_ENDINGS = (".yaml", ".yml")
NOT_SETTINGS = {"name", "recipe", "parameters", "settings"}  # they have places of their own
OWN_KEYS = tuple(key for key in SweepConfig.model_fields if key not in NOT_SETTINGS)
AS_TEXT = {"seeds"}  # read by their own grammar, never as YAML


@dataclass(frozen=True)
class SweepArguments:
    config: SweepConfig
    executor: str


def parse_sweep_arguments(argv: Sequence[str], base: SweepConfig | None = None) -> SweepArguments:
    """Arguments override the settings of a FILE.yaml or of the resumed sweep."""
    recipe, settings = split_target(argv)
    own, rest = _trial_part(settings)
    asked = own.pop(SWEEP_KEY, "")
    executor = own.pop(EXECUTOR_KEY, "local")
    data: dict[str, Any] = _read_file(Path(asked)) if asked.endswith(FILE_ENDINGS) else {}
    if asked and not data:
        data["name"] = asked
    data |= {key: value for key, value in own.items() if key in AS_TEXT}
    data |= parse_overrides(f"{key}={value}" for key, value in own.items() if key not in AS_TEXT)
    if recipe:
        data["recipe"] = recipe
    config = resolve_config(SweepConfig, base, data)
    return SweepArguments(_with_settings(config, rest), executor)


def _trial_part(settings: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Words for the sweep, by key, and words for the training."""
    own: dict[str, str] = {}
    rest = []
    for word in settings:
        key, text = split_setting(word)
        if key not in (SWEEP_KEY, EXECUTOR_KEY, *OWN_KEYS):
            _refuse_slip(key)
            rest.append(word)
            continue
        if key in own:
            raise UsageError(f"'{key}' is set twice: '{own[key]}' and '{text}'.", "Keep one of them.")
        if not text:
            raise UsageError(f"'{key}=' has no value.", "Leave it out to use the default.")
        own[key] = text
    return own, rest


def _refuse_slip(key: str) -> None:
    """A word for the sweep, nearly; other unknown keys are refused with all the others."""
    near = did_you_mean(key, OWN_KEYS)
    if near and key.partition(".")[0] not in TrainConfig.model_fields:
        raise UsageError(f"No key named '{key}'.", near)


def _with_settings(config: SweepConfig, argv: list[str]) -> SweepConfig:
    """Ranges and lists are tried, anything else is set; a key of the file is replaced by the word for it."""
    parse_overrides(argv)  # a key twice, a key without a value
    parameters, settings = dict(config.parameters), flatten(config.settings)
    for word in argv:
        key, text = split_setting(word)
        parameters.pop(key, None)
        settings.pop(key, None)
        if parse_parameter(key, text) is not None:
            parameters[key] = text
        else:
            settings |= flatten(parse_overrides([word]))
    bare = config.model_copy(update={"parameters": {}, "settings": {}})
    return resolve_config(SweepConfig, bare, {"parameters": parameters, "settings": settings})


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = read_yaml(path)
    except FileNotFoundError as error:
        raise NotFound(f"File not found: {path}.", "sweep=NAME names a sweep, sweep=FILE.yaml reads one.") from error
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    if not isinstance(data, dict):
        raise UsageError(
            f"{path} does not describe a sweep.", "Expected keys such as recipe, parameters, settings, trials."
        )
    return {"name": path.stem, **data}


def parse_trial_arguments(typed: Sequence[str], selector: str) -> tuple[TrainArguments, str]:
    """What is to be trained, and the trial it comes from, `NAME:3`; a key that is typed wins over the trial's."""
    rest = [word for word in typed if word.partition("=")[0] != SWEEP_KEY]
    sweeps = [split_setting(word)[1] for word in typed if word.partition("=")[0] == SWEEP_KEY]
    if len(sweeps) > 1:
        raise UsageError(f"'sweep' is set twice: '{sweeps[0]}' and '{sweeps[1]}'.", "Keep one of them.")
    train_arguments = parse_train_arguments(rest)
    origin = find_trial(runs_root(), selector, sweeps[0] if sweeps else "")
    if train_arguments.recipe and train_arguments.recipe != origin.recipe:
        raise UsageError(
            f"Trial {origin.trial} trained '{origin.recipe}', not '{train_arguments.recipe}'.", "Leave the recipe out."
        )
    typed_keys = flatten(train_arguments.overrides)
    kept = {key: value for key, value in origin.settings.items() if not _is_replaced(key, typed_keys)}
    return replace(train_arguments, recipe=origin.recipe, overrides=nest({**kept, **typed_keys})), origin.trial


def _is_replaced(key: str, typed: dict[str, object]) -> bool:
    return any(key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.") for other in typed)
