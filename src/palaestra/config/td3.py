"""Settings of TD3. Defaults are the paper's. DDPG is `policy_interval=1 target_noise=0 twin_critics=false`."""

from __future__ import annotations

from pydantic import Field

from palaestra.config.off_policy import OffPolicyConfig


class Td3Config(OffPolicyConfig):
    tau: float = Field(default=0.005, gt=0, le=1, description="part of the way that targets go")
    policy_interval: int = Field(default=2, ge=1, description="updates of the critics for each of actor and targets")
    exploration_noise: float = Field(
        default=0.1, ge=0, description="standard deviation of noise on actions, in halves of their range"
    )
    target_noise: float = Field(
        default=0.2, ge=0, description="standard deviation of noise on target actions, in halves of their range"
    )
    target_noise_clip: float = Field(default=0.5, ge=0, description="largest noise on target actions")
    twin_critics: bool = Field(default=True, description="two critics, of which the smaller value counts")
