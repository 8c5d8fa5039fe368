"""Settings of the learning agent and of TensorGame. Importing this module does not load torch."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field as Declared
from pydantic import ValidationError, field_validator

from palaestra.apps.matmul.schemes.factorization import Format, parse_format
from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.config.base import Frozen
from palaestra.core.errors import PalaestraError, UsageError, did_you_mean

MAX_MATRIX_ENTRIES = 9  # of a matrix: the policy has 2^entries - 1 outputs for a factor


# Names of version 0.1, which are still accepted.
RENAMED_AGENT_KEYS = MappingProxyType(
    {
        "own_share": "replay_share",
        "plateau_share": "naive_share",
        "memory": "replay_size",
        "most_listed": "max_listed_moves",
        "least_noise": "min_noise",
        "most_noise": "max_noise",
    }
)


class AgentConfig(Frozen):
    renamed_keys = RENAMED_AGENT_KEYS

    demonstrations: Literal["synthetic", "schemes"] = Declared(
        default="synthetic",
        description="synthetic: sums of random products; schemes: also archived schemes (results are then reproduced)",
    )
    change_of_basis: bool = Declared(default=False, description="play every episode in a random basis")
    device: Literal["auto", "cpu", "cuda"] = Declared(default="auto", description="device of the network")
    width: int = Declared(default=64, ge=8, description="units of the hidden layers")
    learning_rate: float = Declared(default=2e-3, gt=0, description="learning rate of Adam")
    batch: int = Declared(default=256, ge=8, description="examples per update")
    warmup: int = Declared(default=400, ge=0, description="updates before the first episode")
    updates: int = Declared(default=20, ge=0, description="updates between episodes")
    replay_share: float = Declared(default=0.25, ge=0, le=0.9, description="share of a batch from the replay buffer")
    scheme_share: float = Declared(default=0.25, ge=0, le=0.9, description="share of a batch from schemes it is shown")
    naive_share: float = Declared(
        default=0.25, ge=0, le=0.9, description="share of a batch from equivalents of the naive scheme, by flips"
    )
    replay_size: int = Declared(default=4_000, ge=1, description="capacity of the replay buffer, in positions")
    simulations: int = Declared(default=12, ge=1, description="simulations of the tree search before each move")
    children: int = Declared(default=16, ge=1, description="moves sampled per position")
    max_listed_moves: int = Declared(
        default=70_000, ge=0, description="with more moves than this they are sampled from the policy"
    )
    samples: int = Declared(default=512, ge=1, description="moves sampled from the policy")
    min_noise: float = Declared(default=0.05, gt=0, description="minimum scale of an episode's Gumbel noise, in moves")
    max_noise: float = Declared(default=0.6, gt=0, description="maximum scale of the noise")
    save_interval: int = Declared(default=20, ge=1, description="episodes between checkpoints")
    walk_flips: int = Declared(default=200_000, ge=0, description="flips of the walk after each episode (method=auto)")


def fits_agent(format_: Format) -> bool:
    return max(format_.sizes) <= MAX_MATRIX_ENTRIES


def check_fits_agent(format_: Format) -> None:
    if not fits_agent(format_):
        raise UsageError(
            f"{format_} is too large for the agent.",
            f"Matrices may have up to {MAX_MATRIX_ENTRIES} entries (3x3x3); use method=flip for larger formats.",
        )


MIN_COEFFICIENT = {Field.GF2: 0, Field.ZT: -1, Field.Z: -2}
MAX_COEFFICIENT = {Field.GF2: 1, Field.ZT: 1, Field.Z: 2}
MAX_TENSOR_ENTRIES = 1 << 15  # of the tensor: 5x5x5 has 15,625


class GameSettings(Frozen):
    format: str = Declared(default="2x2x2", description="rows x inner x columns of the product")
    field: str = Declared(default="gf2", description="gf2, zt (-1, 0, 1) or z (-2 to 2)")
    max_rank: int = Declared(default=0, ge=0, description="moves of an episode; 0: the naive rank")
    change_of_basis: bool = Declared(default=False, description="show the tensor of every episode in a random basis")

    @field_validator("format")
    @classmethod
    def _validate_format(cls, text: str) -> str:
        try:
            format_ = parse_format(text)
        except PalaestraError as error:
            raise ValueError(str(error).rstrip(".")) from error
        first, second, third = format_.sizes
        if first * second * third > MAX_TENSOR_ENTRIES:
            raise ValueError(f"{format_} is too large: more than {MAX_TENSOR_ENTRIES:,} tensor entries")
        return str(format_)

    @field_validator("field")
    @classmethod
    def _validate_field(cls, text: str) -> str:
        try:
            field = parse_field(text)
        except PalaestraError as error:
            raise ValueError(str(error).rstrip(".")) from error
        if field not in MIN_COEFFICIENT:
            raise ValueError(f"invalid field: {field} (must be one of {', '.join(MIN_COEFFICIENT)})")
        return str(field)

    @property
    def product(self) -> Format:
        return parse_format(self.format)

    @property
    def coefficients(self) -> Field:
        return Field(self.field)

    @property
    def moves(self) -> int:
        return self.max_rank or self.product.naive_rank

    @property
    def action_size(self) -> int:
        """Number of coefficients of u, v and w."""
        return sum(self.product.sizes)


def read_game_settings(settings: dict[str, Any]) -> GameSettings:
    unknown = [name for name in settings if name not in GameSettings.model_fields]
    if unknown:
        hint = did_you_mean(unknown[0], GameSettings.model_fields)
        raise UsageError(f"No setting named '{unknown[0]}'.", hint or f"Known: {', '.join(GameSettings.model_fields)}.")
    try:
        return GameSettings(**settings)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.", "See docs/matmul-agent.md.") from error
