"""The status lines under the frames of a live view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .frame_format import Numbers
    from .hub import Status

FIGURES = ("avg", "min", "max")


def run_line(name: str, status: Status, *, is_evaluation: bool = False) -> str:
    """`first (Eval) | step 12,288 | 4,941 steps/s | live view 1.2%`; unknown parts are left out."""
    parts = [f"{name} (Eval)" if is_evaluation else name]
    if status.condition != "connected":
        parts.append(f"{status.condition}: {status.reason}" if status.reason else status.condition)
    if status.heartbeat is not None and (
        status.heartbeat.env_steps or status.condition != "closed"
    ):  # the last heartbeat may have no steps
        parts.append(f"step {status.heartbeat.env_steps:,}")
    if status.steps_per_second is not None:
        parts.append(f"{status.steps_per_second:,.0f} steps/s")
    if status.heartbeat is not None and status.heartbeat.seconds_watched > 0:
        parts.append(f"live view {status.heartbeat.cost:.1%}")
    return " | ".join(parts)


def tile_line(numbers: Numbers) -> str:
    """`reward 1 | return 61 | length 61`"""
    return f"reward {numbers.reward:g} | return {numbers.total_reward:g} | length {numbers.length}"


def evaluation_line(batches: Sequence[Mapping[str, Any]]) -> str:
    """`eval batch 3 | episodes=50 avg=112.3 min=90.1 max=142.6`, of the run's last batch."""
    if not batches:
        return "eval | no batch is complete yet"
    last = batches[-1]
    figures = " ".join(f"{name}={last[name]:.1f}" for name in FIGURES if isinstance(last.get(name), int | float))
    return f"eval batch {last.get('batch', len(batches))} | episodes={last.get('episodes', '?')} {figures}".rstrip()
