"""Worker kinds that run scripts. The daemon imports this module, so it must not import torch or gymnasium."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.apps.scripts.arguments import build_argv, resolve_values
from palaestra.apps.scripts.launch import OWN_KEYS, LaunchConfig, resolve_start_checkpoint
from palaestra.apps.scripts.packages import find_interpreter, implied_packages, install_hint, missing_packages
from palaestra.apps.scripts.scan import offered_scripts, scan
from palaestra.apps.scripts.script import NO_ARGUMENTS, Script, read_script
from palaestra.config.errors import field_errors_of
from palaestra.config.keys import config_json_schema
from palaestra.config.resolve import resolve_config
from palaestra.core.errors import MissingExtra, PalaestraError, UsageError, did_you_mean
from palaestra.core.worker_kind import Checkout, FieldError, Prepared, RequestRefused, Resources

if TYPE_CHECKING:
    from palaestra.apps.scripts.script import Script
    from palaestra.core.run import RunRequest


@dataclass(frozen=True)
class ScriptKind:
    name: str
    needs_arguments: bool  # refuse scripts whose arguments cannot be read

    def schema(self) -> dict[str, Any]:
        return launch_schema()

    def schema_of(self, config: dict[str, Any]) -> dict[str, Any]:
        """The schema with the arguments of the script in `config`, if there is one."""
        return script_schema(self._read(config)) if config.get("script") else launch_schema()

    def prepare(self, request: RunRequest, machine: Resources, runs_root: Path) -> Prepared:
        try:
            script = self._read(request.config)
        except PalaestraError as error:
            raise RequestRefused([FieldError("script", error.message, error.hint)]) from error
        given = {key: value for key, value in request.config.items() if key not in OWN_KEYS}
        values, wrong = _script_settings(script, given)
        launch, errors = _launch_settings(request.config, script, runs_root, implied_packages(script, values))
        errors += wrong
        if request.nproc != 1 or request.executor != "local":
            errors.append(FieldError("nproc", "A script runs as one process on this machine.", "Leave it out."))
        if errors or launch is None:
            raise RequestRefused(errors)
        config = {
            **launch.model_dump(mode="json"),
            "sha256": script.sha256,
            "argv": _argv(script, values),
            "settings": values,
        }
        overrides = {**request.config, "script": str(script.path)}
        return Prepared(
            request=replace(request, recipe=request.recipe or script.path.stem, config=overrides),
            config=config,
            resources=Resources(1, 1 if machine.gpus and values.get("cuda") is True else 0),
            total_steps=_total_steps(values),
        )

    def checkouts(self, runs_root: Path) -> list[Checkout]:
        return offered_scripts(runs_root)

    def add_checkout(self, path: Path, runs_root: Path) -> None:
        if all(one.problem for one in scan(path, runs_root)):
            raise UsageError(f"No script that takes an env_id was found in {path}.", "Give the folder of a checkout.")

    def command(self, run_directory: Path) -> list[str]:
        return [sys.executable, "-m", "palaestra.apps.scripts.worker", str(run_directory)]

    def _read(self, config: dict[str, Any]) -> Script:
        path = config.get("script")
        if not isinstance(path, str) or not path:
            raise UsageError(
                f"'{self.name}' needs the path of a script.", "For example: script=cleanrl/ppo.py env_id=CartPole-v1"
            )
        script = read_script(Path(path))
        if self.needs_arguments and script.style == NO_ARGUMENTS:
            raise UsageError(
                f"The arguments of {script.path} are unknown: it has no Args class and no calls of add_argument.",
                "Use 'palaestra submit script' instead, which accepts any script that uses Gymnasium.",
            )
        return script


def _launch_settings(
    config: dict[str, Any], script: Script, runs_root: Path, additional: list[str]
) -> tuple[LaunchConfig | None, list[FieldError]]:
    own = {key: config[key] for key in OWN_KEYS if key in config}
    try:
        launch = resolve_config(LaunchConfig, None, own)
    except PalaestraError as error:
        return None, field_errors_of(error, LaunchConfig)
    try:
        interpreter = find_interpreter(launch.python)
        absent = missing_packages(script, interpreter, additional)
    except PalaestraError as error:
        return None, [FieldError("python", error.message, error.hint)]
    try:
        start = resolve_start_checkpoint(launch.start_from, script, runs_root) if launch.start_from else ""
    except PalaestraError as error:
        return None, [FieldError("start_from", error.message, error.hint)]
    launch = launch.model_copy(update={"script": str(script.path), "python": interpreter, "start_from": start})
    missing = f"{script.path.name} needs {', '.join(absent)}, which {interpreter} does not have."
    error_field = FieldError("python", missing, install_hint(absent, interpreter), MissingExtra.exit_code)
    return launch, [error_field] if absent else []


def _script_settings(script: Script, given: dict[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    if script.style == NO_ARGUMENTS:
        return given, [
            FieldError(key, f"Invalid value for {key}.", "It must be text or a number.")
            for key, value in given.items()
            if not isinstance(value, str | int | float)
        ]
    names = [argument.name for argument in script.settable_arguments]
    unknown = [key for key in given if key not in {argument.name for argument in script.arguments}]
    errors = [
        FieldError(
            key,
            f"{script.path.name} has no argument '{key}'.",
            did_you_mean(key, [*names, *OWN_KEYS]) or f"It has: {', '.join(names)}.",
        )
        for key in unknown
    ]
    known = {key: value for key, value in given.items() if key not in unknown}
    values, wrong = resolve_values(script.arguments, known)
    return values, errors + wrong


def _argv(script: Script, values: dict[str, Any]) -> list[str]:
    """The script's command line; arguments of unknown scripts are written `--name value`."""
    if script.style == NO_ARGUMENTS:
        return [word for key, value in values.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    return build_argv(script.arguments, values)


def _total_steps(values: dict[str, Any]) -> int:
    steps = values.get("total_timesteps")
    return int(steps) if isinstance(steps, int | float) and not isinstance(steps, bool) and steps > 0 else 0


KIND = ScriptKind("cleanrl", needs_arguments=True)
PLAIN_KIND = ScriptKind("script", needs_arguments=False)


def launch_schema() -> dict[str, Any]:
    """The schema without a script, which accepts additional keys, since its arguments are unknown."""
    return {**config_json_schema(LaunchConfig), "required": ["script"], "additionalProperties": True}


def script_schema(script: Script) -> dict[str, Any]:
    own = launch_schema()
    properties = dict(own["properties"])
    for argument in script.settable_arguments:
        entry: dict[str, Any] = {**argument.type.schema(), "description": argument.description}
        if argument.is_known:
            entry["default"] = argument.default
        elif argument.default_text:
            entry["description"] = f"{argument.description} (default: {argument.default_text})".strip()
        properties[argument.name] = entry
    missing = [one.name for one in script.settable_arguments if not one.has_default]
    return {**own, "properties": properties, "required": ["script", *missing], "additionalProperties": not script.style}
