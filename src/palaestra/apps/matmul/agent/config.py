"""How the learning agent learns and plans; nothing here loads torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field as Declared
from pydantic import ValidationError, field_validator

from palaestra.apps.matmul.schemes.factorization import Format, parse_format
from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.config.base import Frozen
from palaestra.core.errors import PalaestraError, UsageError, did_you_mean

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Format

MAX_MATRIX_ENTRIES = 9  # of a matrix: its factors are words of a language with 2^entries - 1 of them


class AgentConfig(Frozen):
    demonstrations: Literal["synthetic", "schemes"] = Declared(
        default="synthetic",
        description="synthetic: sums of random products; schemes: also those of the archive (then it reproduces)",
    )
    change_of_basis: bool = Declared(default=False, description="every episode is played in another basis")
    device: Literal["auto", "cpu", "cuda"] = Declared(default="auto", description="where the network lives")
    width: int = Declared(default=64, ge=8, description="of the network's layers")
    learning_rate: float = Declared(default=2e-3, gt=0, description="of Adam")
    batch: int = Declared(default=256, ge=8, description="lessons of one update")
    warmup: int = Declared(default=400, ge=0, description="updates before the first episode")
    updates: int = Declared(default=20, ge=0, description="updates between two episodes")
    own_share: float = Declared(default=0.25, ge=0, le=0.9, description="of a batch, from episodes of its own")
    scheme_share: float = Declared(default=0.25, ge=0, le=0.9, description="of a batch, from schemes that it is shown")
    plateau_share: float = Declared(
        default=0.25, ge=0, le=0.9, description="of a batch, from the schoolbook's scheme, walked about"
    )
    memory: int = Declared(default=4_000, ge=1, description="positions of its own episodes that it keeps")
    simulations: int = Declared(default=12, ge=1, description="looks ahead before each move")
    children: int = Declared(default=16, ge=1, description="moves drawn in each position")
    most_listed: int = Declared(
        default=70_000, ge=0, description="with more moves than this they are sampled from the policy"
    )
    samples: int = Declared(default=512, ge=1, description="moves drawn from the policy then")
    least_noise: float = Declared(default=0.05, gt=0, description="of the draw in the calmest episodes, in moves")
    most_noise: float = Declared(default=0.6, gt=0, description="of the draw in the wildest")
    save_interval: int = Declared(default=20, ge=1, description="episodes between checkpoints")
    walk_flips: int = Declared(default=200_000, ge=0, description="flips after each episode, with method=auto")


def fits_agent(format_: Format) -> bool:
    return max(format_.sizes) <= MAX_MATRIX_ENTRIES


def refuse_large(format_: Format) -> None:
    if not fits_agent(format_):
        raise UsageError(
            f"{format_} is too large for the agent.",
            f"Its matrices may have {MAX_MATRIX_ENTRIES} entries: up to 3x3x3. Larger ones are for method=flip.",
        )


LOWEST = {Field.GF2: 0, Field.ZT: -1, Field.Z: -2}
HIGHEST = {Field.GF2: 1, Field.ZT: 1, Field.Z: 2}
MAX_TENSOR_ENTRIES = 1 << 15  # of the tensor: 5x5x5 has 15,625


class GameSettings(Frozen):
    format: str = Declared(default="2x2x2", description="rows x inner x columns of the product")
    field: str = Declared(default="gf2", description="gf2, zt (-1, 0, 1) or z (-2 to 2)")
    max_rank: int = Declared(default=0, ge=0, description="moves that an episode may take; 0: the schoolbook's")
    change_of_basis: bool = Declared(default=False, description="every episode shows the tensor in another basis")

    @field_validator("format")
    @classmethod
    def _is_a_format(cls, text: str) -> str:
        try:
            format_ = parse_format(text)
        except PalaestraError as error:
            raise ValueError(str(error).rstrip(".")) from error
        first, second, third = format_.sizes
        if first * second * third > MAX_TENSOR_ENTRIES:
            raise ValueError(f"{format_} is too large for a game: its tensor has {first * second * third} entries")
        return str(format_)

    @field_validator("field")
    @classmethod
    def _can_be_played(cls, text: str) -> str:
        try:
            field = parse_field(text)
        except PalaestraError as error:
            raise ValueError(str(error).rstrip(".")) from error
        if field not in LOWEST:
            raise ValueError(f"there is no game over {field}; it is played over {', '.join(LOWEST)}")
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
        """Coefficients of u, v and w together."""
        return sum(self.product.sizes)


def read_game_settings(settings: dict[str, Any]) -> GameSettings:
    unknown = [name for name in settings if name not in GameSettings.model_fields]
    if unknown:
        hint = did_you_mean(unknown[0], GameSettings.model_fields)
        raise UsageError(
            f"A game has no setting '{unknown[0]}'.", hint or f"Known: {', '.join(GameSettings.model_fields)}."
        )
    try:
        return GameSettings(**settings)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.", "See docs/matmul-agent.md.") from error
