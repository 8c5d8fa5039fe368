"""How the learning agent learns and plans; nothing here loads torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from palaestra.config.base import Frozen
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.format import Format

MAX_MATRIX_ENTRIES = 9  # of a matrix: its factors are words of a language with 2^entries - 1 of them


class AgentConfig(Frozen):
    demonstrations: Literal["synthetic", "schemes"] = Field(
        default="synthetic",
        description="synthetic: sums of random products; schemes: also those of the archive (then it reproduces)",
    )
    change_of_basis: bool = Field(default=False, description="every episode is played in another basis")
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="where the network lives")
    width: int = Field(default=64, ge=8, description="of the network's layers")
    learning_rate: float = Field(default=2e-3, gt=0, description="of Adam")
    batch: int = Field(default=256, ge=8, description="lessons of one update")
    warmup: int = Field(default=400, ge=0, description="updates before the first episode")
    updates: int = Field(default=20, ge=0, description="updates between two episodes")
    own_share: float = Field(default=0.25, ge=0, le=0.9, description="of a batch, from episodes of its own")
    scheme_share: float = Field(default=0.25, ge=0, le=0.9, description="of a batch, from schemes that it is shown")
    plateau_share: float = Field(
        default=0.25, ge=0, le=0.9, description="of a batch, from the schoolbook's scheme, walked about"
    )
    memory: int = Field(default=4_000, ge=1, description="positions of its own episodes that it keeps")
    simulations: int = Field(default=12, ge=1, description="looks ahead before each move")
    children: int = Field(default=16, ge=1, description="moves drawn in each position")
    most_listed: int = Field(default=70_000, ge=0, description="with more moves than these they come from the policy")
    samples: int = Field(default=512, ge=1, description="moves drawn from the policy then")
    least_noise: float = Field(default=0.05, gt=0, description="of the draw in the calmest episodes, in moves")
    most_noise: float = Field(default=0.6, gt=0, description="of the draw in the wildest")
    save_interval: int = Field(default=20, ge=1, description="episodes between checkpoints")
    walk_flips: int = Field(default=200_000, ge=0, description="flips after each episode, with method=auto")


def fits_agent(format_: Format) -> bool:
    return max(format_.sizes) <= MAX_MATRIX_ENTRIES


def refuse_large(format_: Format) -> None:
    if not fits_agent(format_):
        raise UsageError(
            f"{format_} is too large for the agent.",
            f"Its matrices may have {MOST_ENTRIES} entries: up to 3x3x3. Larger ones are for method=flip.",
        )
