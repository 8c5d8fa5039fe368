"""The line under the pictures, as text and as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .frame_header import Numbers
    from .watch import Status

FIGURES = ("avg", "min", "max")


def run_line(name: str, status: Status, *, is_evaluation: bool = False) -> str:
    """`first (Eval) | step 12,288 | 4,941 steps/s | live view 1.2%`; what is not known is left out."""
    parts = [f"{name} (Eval)" if is_evaluation else name]
    if status.condition != "connected":
        parts.append(f"{status.condition}: {status.reason}" if status.reason else status.condition)
    if status.beat is not None and (
        status.beat.env_steps or status.condition != "closed"
    ):  # a last beat may count none
        parts.append(f"step {status.beat.env_steps:,}")
    if status.steps_per_second is not None:
        parts.append(f"{status.steps_per_second:,.0f} steps/s")
    if status.beat is not None and status.beat.seconds_watched > 0:
        parts.append(f"live view {status.beat.cost:.1%}")
    return " | ".join(parts)


def tile_line(numbers: Numbers) -> str:
    """`reward 1 | return 61 | length 61`"""
    return f"reward {numbers.reward:g} | return {numbers.total_reward:g} | length {numbers.length}"


def evaluation_line(batches: Sequence[Mapping[str, Any]]) -> str:
    """`eval batch 3 | episodes=50 avg=112.3 min=90.1 max=142.6`: the last of a run's batches"""
    if not batches:
        return "eval | no batch is complete yet"
    last = batches[-1]
    figures = " ".join(f"{name}={last[name]:.1f}" for name in FIGURES if isinstance(last.get(name), int | float))
    return f"eval batch {last.get('batch', len(batches))} | episodes={last.get('episodes', '?')} {figures}".rstrip()
