"""What a tensor game is played about."""

from __future__ import annotations

from typing import Any

from pydantic import Field as Declared
from pydantic import ValidationError, field_validator

from palaestra.apps.matmul.field import Field, parse_field
from palaestra.apps.matmul.format import Format, parse_format
from palaestra.config.base import Frozen
from palaestra.core.errors import PalaestraError, UsageError, did_you_mean

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
        return self.max_rank or self.product.schoolbook_rank

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
