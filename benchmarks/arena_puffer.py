"""The whole training loop in Arena beside PufferLib 3.0's, with an equal network, in the same worlds.

    python benchmarks/arena_puffer.py [--steps 983040] [--repeats 3] [--memory] [--out docs/benchmarks]

PufferLib must be importable; its own C environments are not needed, because its trainer plays ours through its own
interface (PufferEnv). Both sides: 384 agents, horizon 64, minibatches of 8,192, one epoch, Adam, one torch thread;
130 bytes -> linear 128, GELU, optionally LSTM 128 -> six actions and a value. Ours is the worker as a user runs it,
with checkpoints, metrics.db, TensorBoard and console; theirs is PuffeRL's evaluate and train without logging. Sides
take turns, each in a process of its own; medians over repeats, CPU time beside wall time. PufferLib keeps no last
observation of a cut episode, and starts each rollout with an empty memory; we do neither, and both cost time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import ModuleType
from unittest.mock import MagicMock

import numpy as np

ROOT = Path(__file__).parents[1]
RECIPE = "arena.basic_easy_shaped"
AGENTS, HORIZON, MINIBATCH, SIZE = 384, 64, 8192, 128
WARM_UP = AGENTS * HORIZON
SIDES = ("palaestra", "pufferlib")

GRAPH = """
schema_version: 1
summary: the network of pufferlib.models.Default
nodes:
  input:  {{type: vector, source: observation}}
  hidden: {{type: linear, source: input, size: {size}, activation: gelu}}
{memory}  action: {{type: action_head, source: {last}}}
  value:  {{type: value_head, source: {last}}}
"""


def main() -> None:
    arguments = parse()
    if arguments.side:
        print(json.dumps(SIDE[arguments.side](arguments.steps, memory=arguments.memory)))
        return
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(arguments.repeats):
        for side in SIDES:
            found[side].append(in_own_process(side, arguments))
            print(side, found[side][-1], flush=True)
    rates = {side: {kind: median(each[kind] for each in found[side]) for kind in ("wall", "cpu")} for side in SIDES}
    ratios = {kind: rates["palaestra"][kind] / rates["pufferlib"][kind] for kind in ("wall", "cpu")}
    network = "LSTM" if arguments.memory else "no memory"
    print(
        f"{network}: {ratios['wall']:.2f} times PufferLib's agent-steps per second, {ratios['cpu']:.2f} per CPU second"
    )
    name = "arena-puffer-memory.json" if arguments.memory else "arena-puffer.json"
    result = {"steps": arguments.steps, "median": rates, "ratios": ratios, "each": found}
    (arguments.out / name).write_text(json.dumps(result, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40 * WARM_UP)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="with an LSTM")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks")
    parser.add_argument("--side", choices=SIDES, help="one measurement, in this process")
    return parser.parse_args()


def in_own_process(side: str, arguments: argparse.Namespace) -> dict[str, float]:
    words = [sys.executable, __file__, "--side", side, "--steps", str(arguments.steps)]
    done = subprocess.run(
        [*words, *(["--memory"] if arguments.memory else [])], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def rates(steps: int, wall: float, cpu: float) -> dict[str, float]:
    """Agent-steps per second since the two clocks were read."""
    return {"wall": steps / (time.perf_counter() - wall), "cpu": steps / (time.process_time() - cpu)}


def ours(steps: int, *, memory: bool) -> dict[str, float]:
    import palaestra

    cell = f"  memory: {{type: lstm, source: hidden, size: {SIZE}}}\n" if memory else ""
    graph = GRAPH.format(size=SIZE, memory=cell, last="memory" if memory else "hidden")
    settings = {
        "policy.graph": graph,
        "policy.normalize_returns": False,
        "ppo.env_count": AGENTS,
        "ppo.horizon": HORIZON,
        "ppo.minibatch_size": MINIBATCH,
        "ppo.update_epochs": 1,
        "ppo.clip_value_loss": True,
    }
    with TemporaryDirectory(prefix="palaestra-bench-") as folder:
        palaestra.train(RECIPE, run="warm", runs_root=Path(folder), total_steps=WARM_UP, **settings)
        wall, cpu = time.perf_counter(), time.process_time()
        palaestra.train(RECIPE, run="timed", runs_root=Path(folder), total_steps=steps, quiet=False, **settings)
        return rates(steps, wall, cpu)


def theirs(steps: int, *, memory: bool) -> dict[str, float]:
    stand_in_for_what_is_not_used()
    import pufferlib.models
    import pufferlib.pufferl
    import pufferlib.vector
    import torch

    torch.set_num_threads(1)
    envs = pufferlib.vector.make(puffer_env_class(), num_envs=1, backend=pufferlib.PufferEnv)
    policy = pufferlib.models.Default(envs.driver_env, hidden_size=SIZE)
    if memory:
        policy = pufferlib.models.LSTMWrapper(envs.driver_env, policy, SIZE, SIZE)
    pufferlib.pufferl.PuffeRL.print_dashboard = lambda *_arguments, **_words: None
    trainer = pufferlib.pufferl.PuffeRL(puffer_config(steps, memory=memory), envs, policy)
    trainer.evaluate()
    trainer.train()
    before, wall, cpu = trainer.global_step, time.perf_counter(), time.process_time()
    while trainer.global_step - before < steps:
        trainer.evaluate()
        trainer.train()
    result = rates(trainer.global_step - before, wall, cpu)
    trainer.utilization.stop()
    return result


def stand_in_for_what_is_not_used() -> None:
    """Of their sweeps and command line; and `gym`, whose spaces they only compare with."""
    import gymnasium

    sys.modules.setdefault("pufferlib.sweep", MagicMock(spec=ModuleType))
    sys.modules.setdefault("rich_argparse", MagicMock())
    sys.modules.setdefault("gym", gymnasium)
    sys.modules.setdefault("gym.spaces", gymnasium.spaces)


def puffer_config(steps: int, *, memory: bool) -> dict[str, object]:
    """PufferLib's defaults, but for sizes, Adam and the CPU."""
    return {
        "env": "arena", "name": "arena", "project": "arena", "seed": 1, "torch_deterministic": True,
        "cpu_offload": False, "device": "cpu", "optimizer": "adam", "anneal_lr": True, "precision": "float32",
        "total_timesteps": 100 * steps, "learning_rate": 3e-3, "gamma": 0.99, "gae_lambda": 0.9, "update_epochs": 1,
        "clip_coef": 0.2, "vf_coef": 2.0, "vf_clip_coef": 0.2, "max_grad_norm": 1.5, "ent_coef": 0.01,
        "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-8, "data_dir": "/tmp", "checkpoint_interval": 10**9,
        "batch_size": AGENTS * HORIZON, "minibatch_size": MINIBATCH, "max_minibatch_size": 32768,
        "bptt_horizon": HORIZON, "compile": False, "compile_mode": "default", "compile_fullgraph": False,
        "vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "prio_alpha": 0.8, "prio_beta0": 0.2, "use_rnn": memory,
    }  # fmt: skip


def puffer_env_class() -> type:
    import gymnasium
    import pufferlib

    from palaestra.config.recipes.registry import find_recipe
    from palaestra.envs.build import make_native_batch
    from palaestra.envs.vector.batch import SeedStream

    class Worlds(pufferlib.PufferEnv):
        """Our batch with its observations side by side in PufferLib's buffer; ended worlds begin anew."""

        def __init__(self, buf: object = None, seed: int = 0) -> None:
            env = find_recipe(RECIPE).config.env
            self.batch = make_native_batch(env, AGENTS // make_native_batch(env, 1).agents)
            self.single_observation_space = gymnasium.spaces.Box(0, 255, (130,), np.uint8)
            self.single_action_space = gymnasium.spaces.Discrete(6)
            self.num_agents = self.agents_per_batch = AGENTS
            super().__init__(buf)
            self.seeds = SeedStream(seed)
            self.seen = {"cells": np.zeros((AGENTS, 11, 11), np.uint8), "self": np.zeros((AGENTS, 9), np.uint8)}

        def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[object]]:
            self.seeds = SeedStream(seed or 0)
            self._begin(range(self.batch.world_count))
            return self.observations, []

        def step(self, actions: np.ndarray) -> tuple[np.ndarray, ...]:
            ended = self.batch.step(np.ascontiguousarray(actions, np.int64), self.seen, self.rewards)
            self.truncations[:] = False
            if ended:
                self.truncations[:] = True
                self._begin([world.world for world in ended])
            self._show()
            return self.observations, self.rewards, self.terminals, self.truncations, []

        def _begin(self, worlds: object) -> None:
            chosen = list(worlds)
            self.batch.reset(chosen, [self.seeds.next() for _ in chosen], [0] * len(chosen), self.seen)
            self._show()

        def _show(self) -> None:
            self.observations[:, :121] = self.seen["cells"].reshape(AGENTS, 121)
            self.observations[:, 121:] = self.seen["self"]

        def close(self) -> None:
            self.batch.close()

    return Worlds


SIDE = {"palaestra": ours, "pufferlib": theirs}

if __name__ == "__main__":
    main()
