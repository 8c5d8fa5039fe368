"""The rings over which a scheme is valid: the strictest, all others, and conversion between them.

A row stays the same if one factor is divided by a number and another multiplied by it. With primitive u and v (no
common divisor) the scheme is valid over the integers exactly if w is integer.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod
from typing import TYPE_CHECKING

import numpy as np

from palaestra.apps.matmul.schemes.factorization import LARGEST_COEFFICIENT, nonzero_rows
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from palaestra.apps.matmul.schemes.factorization import Factorization, Integers

# The fields to which a scheme over a field can be converted, whatever its coefficients.
INCLUDED = {
    Field.GF2: (Field.GF2,),
    Field.Z3: (Field.Z3,),
    Field.ZT: (Field.ZT, Field.Z, Field.Q, Field.ZI, Field.QI, Field.GF2, Field.Z3),
    Field.Z: (Field.Z, Field.Q, Field.ZI, Field.QI, Field.GF2, Field.Z3),
    Field.Q: (Field.Q, Field.QI),
    Field.ZI: (Field.ZI, Field.QI, Field.GF2),
    Field.QI: (Field.QI,),
}


def with_primitive_rows(claim: Factorization) -> Factorization:
    """The same rows with common divisors of u and v moved to w, and all denominators in w; over q or qi.

    Rows that are zero are removed. A scheme whose w would exceed the largest coefficient stays as it is.
    """
    kept = nonzero_rows(claim.tables)
    u, v, w = (_parts(claim, at, kept) for at in range(3))  # each [rank, entries, 2]
    first, second = _contents(u), _contents(v)
    scale = first * second
    denominator = prod(claim.denominators)
    reach = int(np.abs(w).max(initial=0)) * int(scale.max(initial=1))
    if reach > 2**62:
        return claim
    third = w * scale[:, None, None]
    common = gcd(denominator, int(np.gcd.reduce(third, axis=None)) if third.size else 1)
    third //= common
    if int(np.abs(third).max(initial=0)) > LARGEST_COEFFICIENT:
        return claim
    parts = (u // first[:, None, None], v // second[:, None, None], third)
    return _from_parts(claim, parts, denominator // common)


def strictest_field(claim: Factorization) -> Field:
    """The smallest field of characteristic 0 that contains the coefficients, for primitive rows."""
    if claim.imaginary is not None and any(part.any() for part in claim.imaginary):
        return Field.QI if prod(claim.denominators) > 1 else Field.ZI
    if prod(claim.denominators) > 1:
        return Field.Q
    return Field.ZT if claim.largest_coefficient <= 1 else Field.Z


def convert(claim: Factorization, field: Field) -> Factorization:
    """The scheme with coefficients of `field`; rows that become zero are removed. Raises `UsageError`.

    i becomes 1 modulo 2, since Z[i] modulo 1 + i is GF(2). The result is valid if the scheme is.
    """
    if not can_convert(claim, field):
        raise UsageError(
            f"The scheme for {claim.format} over {claim.field} is not one over {field}.",
            f"It holds over {', '.join(holding_fields(claim))}. From gf2 and z3 use 'lift'.",
        )
    if claim.field is field:
        return claim
    if field.characteristic:
        return _reduced(claim, field)
    primitive = claim if field.has_fractions else with_primitive_rows(_widened(claim))
    tables = primitive.factors
    zeros = tuple(np.zeros_like(table) for table in tables)
    imaginary = None if not field.is_complex else primitive.imaginary or (zeros[0], zeros[1], zeros[2])
    return replace(primitive, field=field, imaginary=imaginary)


def can_convert(claim: Factorization, field: Field) -> bool:
    if field in INCLUDED[claim.field]:
        return True
    if claim.field.characteristic:
        return False
    primitive = with_primitive_rows(_widened(claim))
    if field.characteristic:
        is_real = primitive.imaginary is None or not any(part.any() for part in primitive.imaginary)
        return prod(primitive.denominators) % field.characteristic != 0 and (is_real or field is Field.GF2)
    return field in INCLUDED[strictest_field(primitive)]


def holding_fields(claim: Factorization) -> tuple[Field, ...]:
    """All fields over which a valid scheme is valid, in the order of `Field`."""
    return tuple(field for field in Field if can_convert(claim, field))


def _reduced(claim: Factorization, field: Field) -> Factorization:
    prime = field.characteristic
    primitive = with_primitive_rows(_widened(claim))
    inverse = pow(prod(primitive.denominators), -1, prime)
    factors = [table % prime for table in primitive.factors]
    if primitive.imaginary is not None:
        factors = [(real + other) % prime for real, other in zip(factors, primitive.imaginary, strict=True)]
    factors[2] = factors[2] * inverse % prime
    kept = nonzero_rows(factors)
    u, v, w = (_balanced(np.ascontiguousarray(factor[kept]), prime) for factor in factors)
    return replace(claim, field=field, u=u, v=v, w=w, denominators=(1, 1, 1), imaginary=None)


def _balanced(residues: Integers, prime: int) -> Integers:
    """0 and 1 modulo 2; -1, 0 and 1 modulo 3."""
    return residues - prime * (residues > prime // 2) if prime > 2 else residues


def _widened(claim: Factorization) -> Factorization:
    """The same scheme over q or qi."""
    return replace(claim, field=Field.QI if claim.field.is_complex else Field.Q)


def _parts(claim: Factorization, at: int, kept: np.ndarray) -> Integers:
    """Real and imaginary parts of the kept rows of a factor, [rank, entries, 2]."""
    real = claim.factors[at][kept]
    other = np.zeros_like(real) if claim.imaginary is None else claim.imaginary[at][kept]
    return np.stack([real, other], axis=-1)


def _contents(parts: Integers) -> Integers:
    """The greatest common divisor of each row, [rank]."""
    divisors: Integers = np.gcd.reduce(parts.reshape(len(parts), -1), axis=1)
    return divisors


def _from_parts(claim: Factorization, parts: tuple[Integers, Integers, Integers], denominator: int) -> Factorization:
    u, v, w = (np.ascontiguousarray(part[..., 0]) for part in parts)
    x, y, z = (np.ascontiguousarray(part[..., 1]) for part in parts)
    imaginary = None if claim.imaginary is None else (x, y, z)
    return replace(claim, u=u, v=v, w=w, denominators=(1, 1, denominator), imaginary=imaginary)
