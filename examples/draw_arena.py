"""Draws a world of Arena after some steps of random play, and writes it as PNG: `python examples/draw_arena.py FILE`.

The picture in docs/arena.md was made so.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np

from palaestra.apps.arena.batch import make_batch
from palaestra.apps.arena.draw import draw_world
from palaestra.apps.arena.observe import empty_rows
from palaestra.apps.arena.settings import read_settings

STEPS, WIDTH = 140, 720  # WIDTH in pixels
SETTINGS = {
    "agents": 16,
    "teams": 2,
    "width": 24,
    "height": 14,
    "walls": 9,
    "combat": True,
    "freeze": 20,
    "inventory": {"ore": 1, "battery": 1, "charge": 1},
    "mine": {"count": 4, "cooldown": 6},
    "generator": {"count": 3, "stock": 12},
    "altar": {"count": 2, "cost": 1, "cooldown": 8},
    "armoury": {"count": 1, "cost": 1, "stock": 2},
    "charger": {"count": 2},
}


def play(seed: int) -> np.ndarray:
    """The picture [height, width, 3] after STEPS steps"""
    settings = read_settings(SETTINGS)
    worlds, dice = make_batch([settings], 1), np.random.default_rng(seed)
    seen, rewards = empty_rows(settings, settings.agents), np.zeros(settings.agents, np.float32)
    worlds.reset([0], [seed], [0], seen)
    for _ in range(STEPS):
        worlds.step(dice.integers(0, 6, settings.agents), seen, rewards)
    return draw_world(worlds.world_state(0), WIDTH)


def png(pixels: np.ndarray) -> bytes:
    """As the format asks: signature, header, rows with a leading 0, end; each part with length and checksum."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [b"IHDR" + header, b"IDAT" + zlib.compress(rows, 9), b"IEND"]
    framed = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


target = Path(sys.argv[1] if sys.argv[1:] else "arena.png")
print(f"{target}: {target.write_bytes(png(play(seed=9)))} bytes")
