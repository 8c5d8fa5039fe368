"""Bases that a scheme brings with it: coordinates in which its rows look the same, whatever bases it was given in.

A factor of rank one points to a line in one of the three spaces, and the factors of other rows carry lines on from
space to space. Which rows are asked, and in what order, is the caller's; where they are fixed, so are the bases, up to
the length of each vector, and lengths are set so that the first entries that compare two of them are equal.
"""

from __future__ import annotations

from itertools import pairwise

from palaestra.apps.matmul.algebra import Echelon, Rows, inverse_of, multiply

Triple = tuple[Rows, Rows, Rows]  # factor k leads from space k + 1 to space k
Vector = list[int]
Edge = tuple[int, int, int, int]  # a space, two of its vectors, and how much longer the second must be


def normal_rows(rows: list[Triple], asked: list[int], sides: tuple[int, ...], prime: int) -> list[Vector] | None:
    """Every row in the coordinates that the asked ones give; None when they do not give any."""
    bases = _bases([rows[row] for row in asked], sides, prime)
    if bases is None:
        return None
    inverses = [inverse_of(base, prime) for base in bases]
    moved = [_moved(row, bases, inverses, prime) for row in rows]
    if prime == 2:
        return [[entry for factor in row for line in factor for entry in line] for row in moved]
    lengths = _lengths([moved[row] for row in asked], sides, prime)
    return None if lengths is None else [_plain(row, lengths, prime) for row in moved]


def _bases(asked: list[Triple], sides: tuple[int, ...], prime: int) -> list[Rows] | None:
    """For each space the first independent lines, as columns."""
    waiting = [(k, line) for row in asked for k in range(3) if (line := _line(row[k], prime)) is not None]
    spans = [Echelon(prime) for _ in sides]
    found: list[list[Vector]] = [[] for _ in sides]
    for space, vector in waiting:  # grows while it is read
        if len(found[space]) < sides[space] and spans[space].add(vector):
            found[space].append(vector)
            onward = (space + 2) % 3
            waiting.extend((onward, _applied(row[onward], vector, prime)) for row in asked)
    if any(len(vectors) < side for vectors, side in zip(found, sides, strict=True)):
        return None
    return [[list(column) for column in zip(*vectors, strict=True)] for vectors in found]


def _line(factor: Rows, prime: int) -> Vector | None:
    """What all columns are multiples of, when they are."""
    columns = [list(column) for column in zip(*factor, strict=True)]
    span = Echelon(prime)
    lines = [column for column in columns if span.add(column)]
    return lines[0] if len(lines) == 1 else None


def _applied(factor: Rows, vector: Vector, prime: int) -> Vector:
    return [sum(a * b for a, b in zip(line, vector, strict=True)) % prime for line in factor]


def _moved(row: Triple, bases: list[Rows], inverses: list[Rows], prime: int) -> Triple:
    x, y, z = (multiply(multiply(inverses[k], row[k], prime), bases[(k + 1) % 3], prime) for k in range(3))
    return x, y, z


def _lengths(asked: list[Triple], sides: tuple[int, ...], prime: int) -> list[Vector] | None:
    """A length for each vector of each space, so that entries become equal one by one; None when some are left open."""
    lengths = [[1] * side for side in sides]
    parts = [list(range(side)) for side in sides]  # vectors whose lengths hang together have one number
    for space, one, other, ratio in _edges(asked, prime):
        part = parts[space]
        if part[one] == part[other]:
            continue
        factor = lengths[space][one] * ratio * pow(lengths[space][other], -1, prime) % prime
        joined = part[other]
        for place, number in enumerate(part):
            if number == joined:
                part[place] = part[one]
                lengths[space][place] = lengths[space][place] * factor % prime
    return lengths if all(len(set(part)) == 1 for part in parts) else None


def _edges(asked: list[Triple], prime: int) -> list[Edge]:
    """An entry (i, j) grows with vector j of the space it comes from, and shrinks with vector i of where it leads."""
    found: list[Edge] = []
    for row in asked:
        for k, factor in enumerate(row):
            places = [(i, j) for i, line in enumerate(factor) for j, entry in enumerate(line) if entry]
            for (i, j), (m, n) in pairwise(places):
                if i == m:
                    found.append(((k + 1) % 3, j, n, factor[i][j] * pow(factor[m][n], -1, prime) % prime))
            places.sort(key=lambda place: (place[1], place[0]))
            for (i, j), (m, n) in pairwise(places):
                if j == n:
                    found.append((k, i, m, factor[m][n] * pow(factor[i][j], -1, prime) % prime))
    return found


def _plain(row: Triple, lengths: list[Vector], prime: int) -> Vector:
    """Each factor divided by its first nonzero, and the product of the three that were taken out."""
    words: Vector = []
    scale = 1
    for k, factor in enumerate(row):
        target, source = lengths[k], lengths[(k + 1) % 3]
        entries = [
            entry * source[j] * pow(target[i], -1, prime) % prime
            for i, line in enumerate(factor)
            for j, entry in enumerate(line)
        ]
        first = next(entry for entry in entries if entry)
        back = pow(first, -1, prime)
        scale = scale * first % prime
        words.extend(entry * back % prime for entry in entries)
    return [*words, scale]
