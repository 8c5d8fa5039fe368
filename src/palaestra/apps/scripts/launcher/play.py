"""`python bootstrap.py play FD`: plays episodes with the networks of a script's checkpoint.

The first line of standard input names the checkpoint; every further line is an evaluation plan. Each episode, or the
error that ended the process, is one line of JSON to file descriptor FD.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch

from . import compat, probe
from .excerpt import load_excerpt
from .families import family_of
from .jax_networks import make_jax_networks
from .live import ScriptView
from .normalisers import freeze
from .probe import SingleEnv
from .rebuild import (
    has_wrapping,
    make_env,
    make_networks,
    restore_arguments,
    set_environments,
    set_globals,
    wrap_vector_env,
)
from .run import die_with_parent, install_tyro_substitute, set_paths
from .videos import FrameRecording, as_image
from .weights import Mismatch, read

if TYPE_CHECKING:
    from collections.abc import Callable


LARGEST_SEED = 2**32  # seeds of NumPy are below
DEFAULT_MAX_STEPS = 10_000  # equals palaestra.core.evaluation.DEFAULT_MAX_STEPS


class EpisodeCounter:
    """Takes the place of the Observer during an evaluation: records return and length of one episode."""

    in_vector_env = False
    warm_start = None  # an evaluation has no initial weights to load

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forgets the environment of the episode before."""
        self.probe: Any = None  # around the environment of this episode
        self.clear_episode()

    def clear_episode(self) -> None:
        self.ended: tuple[float, int, bool] | None = None  # return, length, terminated

    def add_env(self, probe: Any, env_id: str) -> None:
        del env_id
        self.probe = probe

    def take_index(self) -> int:
        return 0

    def count_steps(self) -> None:
        """Nothing to do: `play` counts."""

    def episode_ended(self, index: int, total: float, length: int, *, terminated: bool) -> None:
        del index
        self.ended = (total, length, terminated)

    def episode_abandoned(self, total: float, length: int) -> None:
        """Reset before its end: a time limit of the script's own wrappers."""
        if self.ended is None:
            self.ended = (total, length, False)


def play(
    env: Any,
    act: Callable[[Any, bool], Any],
    seed: int,
    counter: EpisodeCounter,
    *,
    deterministic: bool,
    max_steps: int | None = None,
    on_step: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """As `palaestra.core.episodes.EpisodeResult`; `look` is called after the reset and every step."""
    seed_everything(seed)
    observation, _ = env.reset(seed=seed)
    counter.clear_episode()  # wrappers may step the environment, and even end an episode, in their reset
    total, length = 0.0, 0
    limit = max_steps or time_limit_of(env) or DEFAULT_MAX_STEPS
    on_step()
    while length < limit:
        with torch.no_grad():
            action = act(batch_of(observation), deterministic)
        observation, reward, terminated, truncated, _ = env.step(as_action(action))
        total, length = total + float(reward), length + 1
        on_step()
        if counter.ended is None and (terminated or truncated):
            if counter.probe is None:
                return episode_result(seed, total, length, bool(terminated))
            observation, _ = env.reset()  # a life was lost, or a wrapper of the script truncated
        if counter.ended is not None:
            return episode_result(seed, *counter.ended)
    if counter.probe is not None:  # rewards before the script's wrappers scale or clip them
        total, length = counter.probe.total, counter.probe.length
    return episode_result(seed, total, length, terminated=False, capped=True)


def time_limit_of(env: Any) -> int | None:
    """Time limit in steps of the unwrapped environment; a step of a wrapper takes at least one of them.

    Same as `palaestra.envs.make.time_limit_of`, which code inside a script's interpreter cannot import.
    """
    spec = getattr(env, "spec", None)
    if spec is None:
        return None
    frames, skip = spec.kwargs.get("max_num_frames_per_episode"), spec.kwargs.get("frameskip", 1)
    if spec.max_episode_steps is None and isinstance(frames, int) and isinstance(skip, int) and skip > 0:
        return frames // skip
    limit: int | None = spec.max_episode_steps
    return limit


def episode_result(seed: int, total: float, length: int, terminated: bool, capped: bool = False) -> dict[str, Any]:
    return {
        "seed": seed,
        "total_reward": float(total),
        "length": int(length),
        "terminated": bool(terminated),
        "env_index": 0,
        "env_step": 0,
        "extras": {},
        "capped": capped,
    }


def seed_everything(seed: int) -> None:
    """Results depend on the seed alone, not on episodes played before."""
    random.seed(seed)
    np.random.seed(seed % LARGEST_SEED)
    torch.manual_seed(seed)


def batch_of(observation: Any) -> Any:
    """A batch of one, [1, …], as the script's networks expect it."""
    if isinstance(observation, dict):
        return {name: batch_of(part) for name, part in observation.items()}
    return torch.as_tensor(np.asarray(observation)[None], dtype=torch.float32)


def as_action(action: Any) -> Any:
    """For one environment: a number for a discrete space, else an array."""
    array = action.detach().cpu().numpy() if isinstance(action, torch.Tensor) else np.asarray(action)
    return array.reshape(-1)[0] if array.size == 1 and array.ndim <= 1 else array[0]


RENDER_MODE = "rgb_array"
LIVE_VIEW_BUDGET = 0.25  # share of the time that an evaluation spends on live frames


class Player:
    """The script's definitions, arguments and weights, ready to play episodes of its environment."""

    def __init__(self, start: dict[str, Any]) -> None:
        notes, self._tensors = read(Path(start["weights"]), start["sha256"])
        self._classes: dict[str, str] = json.loads(notes["classes"])
        self._states: dict[str, str] = json.loads(notes.get("states", "{}"))
        self._saved: dict[str, Any] = json.loads(notes["args"])
        self._video_folder = start.get("video_folder")
        self._live_view = (
            None
            if start.get("frame_buffer") is None
            else ScriptView(Path(start["frame_buffer"]), LIVE_VIEW_BUDGET, _ignore)
        )
        self._slot = int(start.get("slot", 0))
        self._steps = self._played = 0
        if self._live_view is not None and self._slot == 0:  # one heartbeat per frame buffer, written by slot 0
            self._live_view.figures = lambda: (self._steps, self._played)
        self._next_frame_at = 0.0
        self._plugin_families = [load_family(Path(path)) for path in start.get("families", [])]
        self._counter = EpisodeCounter()
        install_tyro_substitute()
        compat.install(notes["source"])
        probe.install(self._counter)
        if self._video_folder:
            probe.install_options(render_mode=RENDER_MODE)
        self._script = load_excerpt(notes["source"].encode(), start["script"], self._classes)
        self._networks: dict[str, Any] = {}
        self._env_id: str | None = None

    def episodes(self, plan: dict[str, Any]) -> Any:
        args = restore_arguments(self._saved, plan["env_id"])
        set_globals(self._script, args)
        if self._env_id != plan["env_id"]:
            self._prepare(args, plan["env_id"])
        for seed in plan["seeds"]:
            yield self._episode(args, seed, plan)

    def _after_step(self) -> None:
        self._steps += 1
        now = time.monotonic()
        if self._live_view is not None and self._counter.probe is not None and now >= self._next_frame_at:
            self._next_frame_at = self._live_view.check({self._slot: self._counter.probe}, now)

    def _prepare(self, args: Any, env_id: str) -> None:
        """Builds the networks once per environment; scripts build them from the spaces of a vector environment."""
        env = make_env(self._script, args, 0)
        envs = gymnasium.vector.SyncVectorEnv([lambda: env])
        set_environments(self._script, env, wrap_vector_env(self._script, envs))
        self._networks, problems = self._make_networks()
        self._family = family_of(self._networks, self._plugin_families)
        if self._family is None:
            known = ", ".join(f"{name} ({kind})" for name, kind in self._classes.items())
            raise Mismatch("; ".join(problems) or f"no known way to compute actions from its networks: {known}")
        self._env_id = env_id
        env.close()

    def _make_networks(self) -> tuple[dict[str, Any], list[str]]:
        if not self._states:
            return make_networks(self._script, self._classes, self._tensors)
        return make_jax_networks(self._script, self._classes, self._states, self._tensors)

    def _env(self, args: Any, seed: int) -> Any:
        env = make_env(self._script, args, seed)
        if not has_wrapping(self._script):
            return env
        return SingleEnv(wrap_vector_env(self._script, gymnasium.vector.SyncVectorEnv([lambda: env])))

    def _new_recording(self, seed: int) -> FrameRecording | None:
        if not self._video_folder:
            return None
        return FrameRecording(Path(self._video_folder) / f"{os.getpid()}-{seed}.frames")

    def _episode(self, args: Any, seed: int, plan: dict[str, Any]) -> dict[str, Any]:
        self._counter.begin()
        env = self._env(args, seed)
        recording = self._new_recording(seed)
        try:
            freeze(env, self._tensors)
            act = self._family.actor(self._networks, env.action_space)

            def on_step() -> None:
                if recording is not None:
                    recording.add(require_frame(as_image(env.render())))
                self._after_step()

            episode = play(
                env,
                act,
                seed,
                self._counter,
                deterministic=bool(plan["deterministic"]),
                max_steps=plan.get("max_steps"),
                on_step=on_step,
            )
        finally:
            env.close()
            if recording is not None:
                recording.close()
        self._played += 1
        rate = env.metadata.get("render_fps")
        video = {} if recording is None else {"video": str(recording.path), "frame_rate": float(rate) if rate else 0.0}
        return {"episode": episode, "family": self._family.name, **video}


def _ignore(*_message: Any) -> None:
    """Rendering errors are reported through the frame buffer, not through messages."""


def require_frame(frame: Any) -> Any:
    if frame is None:
        raise Mismatch("the environment's render() returned no RGB image to record")
    return frame


def load_family(path: Path) -> Any:
    """The FAMILY of a plugin's module, loaded by its path."""
    spec = importlib.util.spec_from_file_location(f"palaestra_family_{path.stem}", path)
    assert spec is not None, "a file that is there has a spec"
    assert spec.loader is not None, "and a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FAMILY


def main(descriptor: int) -> None:
    """Never returns: exit handlers of the script's libraries must not change the exit code."""
    torch.set_num_threads(1)
    code = 0
    try:
        player = None
        for line in sys.stdin:
            message = json.loads(line)
            if player is None:
                die_with_parent(int(message["parent"]))
                set_paths(Path(message["script"]))
                player = Player(message)
                continue
            for reply in player.episodes(message["plan"]):
                write_reply(descriptor, reply)
    except Mismatch as error:
        code = report_error(descriptor, f"The checkpoint cannot be played: {error}.", "")
    except BaseException as error:
        code = report_exception(descriptor, error)
        if not isinstance(error, Exception):
            raise
    sys.stdout.flush()
    os._exit(code)


def report_error(descriptor: int, error: str, hint: str) -> int:
    write_reply(descriptor, {"error": error, "hint": hint, "exit_code": 1})
    return 1


def report_exception(descriptor: int, error: BaseException) -> int:
    traceback.print_exc()
    text = f"{type(error).__name__}: {error}".rstrip(".")
    return report_error(descriptor, f"{text}.", "Raised by the script's code.")


def write_reply(descriptor: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(descriptor, data) :]
