"""Where the coefficients of a scheme live. A rank over one field says nothing about another."""

from __future__ import annotations

from enum import StrEnum

from palaestra.core.errors import UsageError, did_you_mean


class Field(StrEnum):
    GF2 = "gf2"  # 0 and 1, and 1 + 1 = 0: right for bits, wrong for numbers
    ZT = "zt"  # -1, 0, 1
    Z = "z"  # whole numbers
    Q = "q"  # fractions

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


MEANINGS = {
    Field.GF2: "modulo 2",
    Field.ZT: "coefficients -1, 0 and 1",
    Field.Z: "whole coefficients",
    Field.Q: "fractions",
}
OTHER_NAMES = {"ternary": Field.ZT, "z2": Field.GF2, "int": Field.Z}


def parse_field(text: str) -> Field:
    word = text.strip().lower()
    if word in OTHER_NAMES:
        return OTHER_NAMES[word]
    if word not in set(Field):
        hint = did_you_mean(word, [*Field, *OTHER_NAMES]) or f"Known: {', '.join(Field)}."
        raise UsageError(f"No field is called '{text}'.", hint)
    return Field(word)
