"""The learning algorithms: what each learns from, which actions it takes, and where its defaults come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AlgorithmInfo:
    name: str  # as `algorithm=` selects it
    title: str
    data: str  # that it learns from
    actions: tuple[str, ...]  # spaces that it takes: discrete, multi-discrete, continuous, unbounded
    engines: tuple[str, ...]
    defaults: str  # where those of its section come from
    papers: tuple[str, ...]
    summary: str

    @property
    def page(self) -> str:
        """Below docs/."""
        return "training.md" if self.name == "ppo" else f"{self.name}.md"


ALGORITHMS = (
    AlgorithmInfo(
        name="ppo",
        title="Proximal policy optimisation",
        data="rollouts",
        actions=("discrete", "multi-discrete", "continuous", "unbounded"),
        engines=("torch", "native"),
        defaults="CleanRL's ppo.py",
        papers=("Schulman et al. 2017, arXiv:1707.06347", "Huang et al. 2022, 37 implementation details"),
        summary="for every action space, for memory and for fast environments",
    ),
    AlgorithmInfo(
        name="pqn",
        title="Parallelised Q-learning",
        data="rollouts",
        actions=("discrete",),
        engines=("torch", "native"),
        defaults="CleanRL's pqn.py",
        papers=("Gallici et al. 2024, arXiv:2407.04811",),
        summary="Q-learning with lambda-returns and layer normalisation, without buffer and target network",
    ),
    AlgorithmInfo(
        name="dqn",
        title="Deep Q-learning",
        data="replay buffer",
        actions=("discrete",),
        engines=("torch", "native"),
        defaults="CleanRL's dqn.py",
        papers=(
            "Mnih et al. 2015, Nature 518",
            "van Hasselt et al. 2016, arXiv:1509.06461 (double)",
            "Wang et al. 2016, arXiv:1511.06581 (dueling)",
            "Schaul et al. 2016, arXiv:1511.05952 (prioritised replay)",
        ),
        summary="few environment steps with discrete actions; double, dueling, n-step, prioritised replay as options",
    ),
    AlgorithmInfo(
        name="sac",
        title="Soft actor-critic",
        data="replay buffer",
        actions=("discrete", "continuous"),
        engines=("torch", "native"),
        defaults="Stable-Baselines3, which has the paper's",
        papers=("Haarnoja et al. 2018, arXiv:1812.05905", "Christodoulou 2019, arXiv:1910.07207 (discrete)"),
        summary="few environment steps with continuous actions; learns how much to explore",
    ),
    AlgorithmInfo(
        name="td3",
        title="Twin delayed deep deterministic policy gradient",
        data="replay buffer",
        actions=("continuous",),
        engines=("torch", "native"),
        defaults="the paper's; Stable-Baselines3 has a larger learning rate",
        papers=("Fujimoto et al. 2018, arXiv:1802.09477", "Lillicrap et al. 2016, arXiv:1509.02971 (DDPG)"),
        summary="few environment steps with continuous actions, a deterministic policy; DDPG by settings",
    ),
)
