"""Fits the tanh of native/engine: x P(x^2) / Q(x^2) with the smallest relative error, and writes its coefficients.

    python benchmarks/fit_tanh.py native/engine/tanh_fit.hpp

Sanathanan and Koerner's iteration makes the rational fit linear; Lawson's weights turn least squares into minimax.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

LIMIT = 9.0  # from here on, tanh is 1 in single precision
ABOVE, BELOW = 5, 5  # coefficients of P and Q; Q's first is 1


def fit() -> tuple[np.ndarray, np.ndarray]:
    x = LIMIT * (1 - np.cos(np.linspace(0, np.pi, 4001)[1:])) / 2
    square, wanted = x**2, np.tanh(x) / x
    scaled = square / LIMIT**2
    powers = scaled[:, None] ** np.arange(max(ABOVE, BELOW))
    weights, denominator = np.ones_like(x), np.ones_like(x)
    best: tuple[float, np.ndarray, np.ndarray] = (np.inf, np.zeros(ABOVE), np.zeros(BELOW))
    for _ in range(400):
        row = np.sqrt(weights) / (denominator * wanted)
        system = np.hstack([powers[:, :ABOVE], -wanted[:, None] * powers[:, 1:BELOW]]) * row[:, None]
        solution = np.linalg.lstsq(system, wanted * row, rcond=None)[0]
        above, below = solution[:ABOVE], np.concatenate([[1.0], solution[ABOVE:]])
        denominator = powers[:, :BELOW] @ below
        error = np.abs(powers[:, :ABOVE] @ above / denominator / wanted - 1)
        if error.max() < best[0]:
            best = (float(error.max()), above, below)
        weights *= 0.5 + 0.5 * error / error.max()
        weights /= weights.mean()
    _, above, below = best
    return above / LIMIT ** (2 * np.arange(ABOVE)), below / LIMIT ** (2 * np.arange(BELOW))


def error_in_single_precision(above: np.ndarray, below: np.ndarray) -> float:
    """Largest relative error, in units of the last place of 1."""
    x = np.concatenate([np.logspace(-6, 0, 200_001), np.linspace(1, LIMIT, 400_001)]).astype(np.float32)
    square = x * x
    over, under = np.float32(above[-1]), np.float32(below[-1])
    for number in above[-2::-1]:
        over = over * square + np.float32(number)
    for number in below[-2::-1]:
        under = under * square + np.float32(number)
    exact = np.tanh(x.astype(np.float64))
    return float(np.abs((x * over / under).astype(np.float64) / exact - 1).max() / 2**-24)


def header(above: np.ndarray, below: np.ndarray, error: float) -> str:
    def numbers(values: np.ndarray) -> str:
        return ", ".join(f"{value:.9e}f" for value in values)

    return f"""// Written by benchmarks/fit_tanh.py: largest relative error {error:.1f} x 2^-24 in single precision.
#pragma once

namespace engine {{

constexpr float TANH_LIMIT = {LIMIT}f;
constexpr int TANH_ABOVE_COUNT = {len(above)}, TANH_BELOW_COUNT = {len(below)};
constexpr float TANH_ABOVE[] = {{{numbers(above)}}};
constexpr float TANH_BELOW[] = {{{numbers(below)}}};

}}  // namespace engine
"""


if __name__ == "__main__":
    found = fit()
    text = header(*found, error_in_single_precision(*found))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    print(text)
