"""`python bootstrap.py play FD`: plays episodes with the networks of a checkpoint, as it is told on standard input.

The first line says which checkpoint, every further line is a plan; each episode and each refusal is a line to FD.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import gymnasium
import torch

from . import compat, probe
from .episodes import EpisodeCounter, play
from .excerpt import load_excerpt
from .families import family_of
from .jax_networks import make_jax_networks
from .live import ScriptView
from .normalisers import freeze
from .rebuild import arguments_again, has_wrapping, make_env, make_networks, set_environments, set_globals, wrapped
from .run import die_with_parent, set_paths, substitute_tyro
from .vector import SingleEnv
from .videos import FrameRecording, as_image
from .weights import Mismatch, read

PICTURES = "rgb_array"
WATCHED_SHARE = 0.25  # of its time that an evaluation gives to those who watch: it is there to be seen


class Player:
    """The script's definitions, its arguments and its weights, ready to play in its environment."""

    def __init__(self, start: dict[str, Any]) -> None:
        notes, self._tensors = read(Path(start["weights"]), start["sha256"])
        self._classes: dict[str, str] = json.loads(notes["classes"])
        self._states: dict[str, str] = json.loads(notes.get("states", "{}"))
        self._saved: dict[str, Any] = json.loads(notes["args"])
        self._films = start.get("films")
        self._show = (
            None
            if start.get("frame_buffer") is None
            else ScriptView(Path(start["frame_buffer"]), WATCHED_SHARE, _unheard)
        )
        self._slot = int(start.get("slot", 0))
        self._steps = self._played = 0
        if self._show is not None and self._slot == 0:  # there is one beat for all who write into a lane
            self._show.figures = lambda: (self._steps, self._played)
        self._look_at = 0.0
        self._others = [load_family(Path(path)) for path in start.get("families", [])]
        self._referee = EpisodeCounter()
        substitute_tyro()
        compat.install(notes["source"])
        probe.install(self._referee)
        if self._films:
            probe.install_options(render_mode=PICTURES)
        self._script = load_excerpt(notes["source"].encode(), start["script"], self._classes)
        self._networks: dict[str, Any] = {}
        self._env_id: str | None = None

    def episodes(self, plan: dict[str, Any]) -> Any:
        args = arguments_again(self._saved, plan["env_id"])
        set_globals(self._script, args)
        if self._env_id != plan["env_id"]:
            self._prepare(args, plan["env_id"])
        for seed in plan["seeds"]:
            yield self._episode(args, seed, plan)

    def _be_seen(self) -> None:
        self._steps += 1
        now = time.monotonic()
        if self._show is not None and self._referee.probe is not None and now >= self._look_at:
            self._look_at = self._show.check({self._slot: self._referee.probe}, now)

    def _prepare(self, args: Any, env_id: str) -> None:
        """Networks are made once; scripts make them from the spaces of a vector environment."""
        env = make_env(self._script, args, 0)
        set_environments(self._script, env, wrapped(self._script, gymnasium.vector.SyncVectorEnv([lambda: env])))
        self._networks, problems = self._make_networks()
        self._family = family_of(self._networks, self._others)
        if self._family is None:
            known = ", ".join(f"{name} ({kind})" for name, kind in self._classes.items())
            raise Mismatch("; ".join(problems) or f"nobody knows how its networks act: {known}")
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
        return SingleEnv(wrapped(self._script, gymnasium.vector.SyncVectorEnv([lambda: env])))

    def _episode(self, args: Any, seed: int, plan: dict[str, Any]) -> dict[str, Any]:
        self._referee.begin()
        env = self._env(args, seed)
        film = FrameRecording(Path(self._films) / f"{os.getpid()}-{seed}.pictures") if self._films else None
        try:
            freeze(env, self._tensors)
            act = self._family.actor(self._networks, env.action_space)

            def look() -> None:
                if film is not None:
                    film.add(demanded(as_image(env.render())))
                self._be_seen()

            episode = play(
                env,
                act,
                seed,
                self._referee,
                is_likeliest=bool(plan["deterministic"]),
                max_steps=plan.get("max_steps"),
                look=look,
            )
        finally:
            env.close()
            if film is not None:
                film.close()
        self._played += 1
        rate = env.metadata.get("render_fps")
        reported = {} if film is None else {"film": str(film.path), "rate": float(rate) if rate else 0.0}
        return {"episode": episode, "family": self._family.name, **reported}


def _unheard(*_message: Any) -> None:
    """A picture that cannot be drawn is told in the lane itself."""


def demanded(picture: Any) -> Any:
    if picture is None:
        raise Mismatch("the environment gives no picture to film")
    return picture


def load_family(path: Path) -> Any:
    """A plugin's module, by its path."""
    spec = importlib.util.spec_from_file_location(f"palaestra_family_{path.stem}", path)
    assert spec is not None, "a file that is there has a spec"
    assert spec.loader is not None, "and a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FAMILY


def main(answers: int) -> None:
    """Never returns: libraries of the script must not change the exit code while they are torn down."""
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
            for answer in player.episodes(message["plan"]):
                say(answers, answer)
    except Mismatch as error:
        code = refuse(answers, f"The checkpoint cannot be played: {error}.", "")
    except BaseException as error:
        traceback.print_exc()
        refuse(answers, f"{type(error).__name__}: {error}".rstrip(".") + ".", "The script's own code raised it.")
        if not isinstance(error, Exception):
            raise
        code = 1
    sys.stdout.flush()
    os._exit(code)


def refuse(answers: int, error: str, hint: str) -> int:
    say(answers, {"error": error, "hint": hint, "exit_code": 1})
    return 1


def say(answers: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(answers, data) :]
