"""Everything a training run is made of. Every leaf can be set as `key=value` on the command line."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from palaestra.config.base import RENAMED_SECTIONS, Frozen
from palaestra.config.distributed import ClusterConfig, DistributedConfig
from palaestra.config.dqn import DqnConfig
from palaestra.config.env import CurriculumConfig, EnvConfig
from palaestra.config.evaluation import EvaluationConfig
from palaestra.config.loggers import LoggersConfig
from palaestra.config.off_policy import OffPolicyConfig
from palaestra.config.policy import PolicyConfig
from palaestra.config.ppo import PpoConfig
from palaestra.config.pqn import PqnConfig
from palaestra.config.sac import SacConfig
from palaestra.config.td3 import Td3Config

AlgorithmConfig = PpoConfig | PqnConfig | DqnConfig | SacConfig | Td3Config


class CheckpointConfig(Frozen):
    save_interval: int | None = Field(
        default=None,
        ge=0,
        description="iterations between checkpoints; 0: only at the end; null: 50, and at most one a second",
    )
    keep: int = Field(
        default=5, ge=1, description="how many to keep; the latest, the best and those in use always stay"
    )
    keep_trainer_states: int = Field(default=2, ge=1, description="how many of them can be continued from")
    replay_buffer: bool = Field(
        default=True,
        description="save the replay buffer too (algorithms dqn, sac and td3); without it a resume is inexact",
    )


class LiveConfig(Frozen):
    enabled: bool = Field(default=True, description="the run can be watched live; costs nothing without viewers")
    budget: float = Field(
        default=0.015, gt=0, le=1, description="largest share of the time that goes into pictures while watched"
    )
    tiles: int = Field(default=64, ge=1, le=1024, description="how many environments can be watched, the first ones")
    largest_side: int = Field(
        default=640, ge=16, le=2048, description="pixels; larger pictures are made smaller before they leave the run"
    )


class TrainConfig(Frozen):
    renamed_keys = RENAMED_SECTIONS

    total_steps: int = Field(default=500_000, ge=1, description="environment steps over all players and processes")
    seed: int = Field(default=1, ge=0, lt=2**31, description="decides everything that is drawn at random")
    env: EnvConfig = Field(default=EnvConfig(), description="the environment")
    curriculum: CurriculumConfig = Field(default=CurriculumConfig(), description="several tasks in one training")
    policy: PolicyConfig = Field(default=PolicyConfig(), description="the network")
    initial_weights: str | None = Field(
        default=None, description="checkpoint to take the first weights from: RUN:best, RUN:10 or a path; null: fresh"
    )
    algorithm: Literal["ppo", "pqn", "dqn", "sac", "td3"] = Field(
        default="ppo", description="the learning algorithm; its settings are in the section of the same name"
    )
    ppo: PpoConfig = Field(default=PpoConfig(), description="settings of algorithm=ppo")
    pqn: PqnConfig = Field(default=PqnConfig(), description="settings of algorithm=pqn")
    dqn: DqnConfig = Field(default=DqnConfig(), description="settings of algorithm=dqn")
    sac: SacConfig = Field(default=SacConfig(), description="settings of algorithm=sac")
    td3: Td3Config = Field(default=Td3Config(), description="settings of algorithm=td3")
    checkpoints: CheckpointConfig = Field(default=CheckpointConfig(), description="what is saved, and how often")
    evaluation: EvaluationConfig = Field(default=EvaluationConfig(), description="how checkpoints are judged")
    evaluate_interval: int = Field(
        default=0, ge=0, description="iterations between evaluations while training, and one at its end; 0: none"
    )
    evaluate_local: bool = Field(default=True, description="judge them in a spare process of this machine")
    evaluate_remote: bool = Field(default=False, description="judge them on a cluster; needs the extra 'cluster'")
    analyze_weights_interval: int = Field(
        default=0, ge=0, description="iterations between norms, ranks and dead units of every layer; 0: none"
    )
    loggers: LoggersConfig = Field(default=LoggersConfig(), description="where metrics go")
    live: LiveConfig = Field(default=LiveConfig(), description="watching the run while it trains")
    engine: Literal["auto", "torch", "native"] = Field(
        default="auto",
        description="who plays and learns; native: compiled, for small networks on a CPU; auto: native where it fits",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: cuda where there is one")
    distributed: DistributedConfig = Field(
        default=DistributedConfig(), description="how several processes train together"
    )
    cluster: ClusterConfig = Field(default=ClusterConfig(), description="the Ray that is asked to help")
    torch_threads: int = Field(
        default=1, ge=1, description="threads of torch or of the native engine; small networks want one"
    )

    @model_validator(mode="after")
    def _updates_begin_before_the_end(self) -> TrainConfig:
        settings = self.algorithm_settings
        if isinstance(settings, OffPolicyConfig) and settings.learning_starts >= self.total_steps:
            raise ValueError(
                f"{self.algorithm}.learning_starts={settings.learning_starts} is not below "
                f"total_steps={self.total_steps}, so nothing would be learned; "
                f"try {self.algorithm}.learning_starts={self.total_steps // 10}, or more steps"
            )
        return self

    @property
    def algorithm_settings(self) -> AlgorithmConfig:
        """The section of the chosen algorithm."""
        settings: AlgorithmConfig = getattr(self, self.algorithm)
        return settings

    @property
    def env_count(self) -> int:
        """Environments (or agents) side by side in each process."""
        return self.algorithm_settings.env_count

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps that each process takes between two reports."""
        return self.algorithm_settings.steps_per_iteration
