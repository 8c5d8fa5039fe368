"""Who takes part, and in which of the settings."""

from __future__ import annotations

from dataclasses import dataclass

CARTPOLE = frozenset({"cleanrl", "cleanrl-2", "large", "large-2", "sb3", "solve"})
ALL = CARTPOLE | {"halfcheetah", "halfcheetah-2"}
OURS = "palaestra"


@dataclass(frozen=True)
class Peer:
    name: str
    title: str
    module: str
    settings: frozenset[str]
    arguments: tuple[str, ...] = ()
    requirements: str = ""  # benchmarks/peers/requirements-<this>.txt; none: it runs in our own environment
    cores: int = 1  # at least; one that is made of several processes gets two
    remark: str = ""  # what a reader must know to judge the figure


@dataclass(frozen=True)
class Target:
    """`side` shall be at least `ratio` times as fast as `against`, or solve it in as small a part of the time."""

    against: str
    setting: str
    ratio: float
    side: str = OURS
    quantity: str = "steps_per_second"  # or solved_seconds, where less is better


CATALOGUE = (
    Peer(OURS, "Palaestra", "peers.ours", ALL | {"memory"}, remark="`palaestra train`, all loggers and checkpoints on"),
    Peer(
        "palaestra-cheap",
        "Palaestra, the cheap cell",
        "peers.ours",
        frozenset({"memory"}),
        arguments=("cheap",),
        remark="`policy=memory`, a minGRU of the same size; all loggers and checkpoints on",
    ),
    Peer(
        "palaestra-torch",
        "Palaestra, torch engine",
        "peers.ours",
        ALL - {"solve"},
        arguments=("torch",),
        remark="what a network of one's own gets; all loggers and checkpoints on",
    ),
    Peer(
        "palaestra-compiled",
        "Palaestra, torch engine, compiled",
        "peers.ours",
        frozenset({"cleanrl", "large"}),
        arguments=("compiled",),
        remark="`policy.compile=true`; all loggers and checkpoints on",
    ),
    Peer("eager", "eager torch loop", "peers.eager", ALL, remark="single-file style, of our own writing; no logging"),
    Peer("sb3", "Stable-Baselines3", "peers.sb3", ALL, remark="`PPO.learn`, no logging"),
    Peer(
        "sb3-subproc",
        "Stable-Baselines3, SubprocVecEnv",
        "peers.sb3",
        frozenset({"halfcheetah-2"}),
        arguments=("subproc",),
        remark="`PPO.learn`, no logging",
    ),
    Peer(
        "jax",
        "JAX, whole loop compiled",
        "peers.jax_loop",
        CARTPOLE,
        requirements="jax",
        remark="purejaxrl style, of our own writing, CartPole in JAX too; no logging; its start is its first call, "
        "of several updates",
    ),
    Peer(
        "envpool",
        "eager torch loop over envpool",
        "peers.envpool_loop",
        frozenset({"cleanrl", "large", "halfcheetah", "halfcheetah-2"}),
        requirements="envpool",
        remark="the eager loop with envpool's environments; no logging",
    ),
    Peer(
        "puffer",
        "PufferLib 3.0",
        "peers.puffer",
        frozenset({"cleanrl", "cleanrl-2", "large", "memory"}),
        requirements="puffer",
        remark="its trainer without dashboard, over a CartPole that steps all copies in one call of NumPy",
    ),
    Peer(
        "rllib",
        "RLlib",
        "peers.rllib",
        frozenset({"cleanrl", "large"}),
        requirements="rllib",
        cores=2,
        remark="no env runners or learners of their own; two cores, because Ray's processes run beside it",
    ),
    Peer(
        "factory",
        "Sample Factory",
        "peers.factory",
        frozenset({"cleanrl", "large"}),
        requirements="factory",
        cores=2,
        remark="asynchronous, one worker that plays; two cores",
    ),
    Peer(
        "cleanrl",
        "CleanRL's ppo.py",
        "peers.cleanrl",
        frozenset({"cleanrl", "cleanrl-2", "large", "large-2", "sb3"}),
        requirements="cleanrl",
        remark="unmodified, from the checkout that was given; it writes TensorBoard files",
    ),
)
PEERS = {peer.name: peer for peer in CATALOGUE}
