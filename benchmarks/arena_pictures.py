"""How Arena's agents learned, as a curve, and what they do, as a moving picture: those of docs/arena.md.

palaestra train arena.basic_easy_shaped run=shown loggers.downsample=false && palaestra eval shown --replays
python benchmarks/arena_pictures.py runs/by-name/shown docs/images
"""

from __future__ import annotations

import sys
from pathlib import Path

import av
import numpy as np

from palaestra.apps.arena.replay import open_replay
from palaestra.runs.metrics.reader import MetricsReader

ITEMS = {"ore": "#0f766e", "battery": "#b45309", "heart": "#dc2626"}
WIDTH, HEIGHT, LEFT, BELOW = 640, 300, 44, 34
BUCKETS = 24
FRAMES, SIZE, FRAMES_PER_SECOND = 96, 300, 8


def main(run: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "arena-learning.svg").write_text(curve(run / "metrics.db"))
    film(sorted((run / "replays").glob("*plain*"))[0], out / "arena.webp")


def curve(metrics_file: Path) -> str:
    """Items made per agent and episode, by the agent-steps of the run when the episode ended."""
    with MetricsReader(metrics_file) as metrics:
        episodes = metrics.episodes()
    steps = np.array([episode.env_step for episode in episodes])
    edges = np.linspace(0, steps.max(), BUCKETS + 1)
    bucket = np.clip(np.searchsorted(edges, steps) - 1, 0, BUCKETS - 1)
    made = {item: np.array([episode.extras[item] for episode in episodes]) for item in ITEMS}
    used = np.unique(bucket)
    means = {item: np.array([values[bucket == k].mean() for k in used]) for item, values in made.items()}
    across = LEFT + (edges[used] + edges[used + 1]) / 2 / steps.max() * (WIDTH - LEFT - 70)
    top = max(float(values.max()) for values in means.values()) * 1.05
    parts = [f'<text x="{LEFT}" y="16">made per agent and episode of 256 steps</text>']
    for mark in np.linspace(0, np.floor(top), 4).round():
        y = height_of(mark, top)
        parts.append(
            f'<path d="M{LEFT} {y:.1f}H{WIDTH - 70}" stroke="#8884"/><text x="8" y="{y + 4:.1f}">{mark:g}</text>'
        )
    for item, colour in ITEMS.items():
        points = " ".join(f"{x:.1f},{height_of(y, top):.1f}" for x, y in zip(across, means[item], strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        last = height_of(means[item][-1], top) + 4
        parts.append(f'<text x="{across[-1] + 8:.1f}" y="{last:.1f}" fill="{colour}">{item}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">0</text>')
    parts.append(f'<text x="{WIDTH - 70}" y="{HEIGHT - 8}" text-anchor="end">{steps.max():,} agent-steps</text>')
    style = "text{font:13px sans-serif;fill:#888}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"><style>{style}</style>'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def height_of(value: float, top: float) -> float:
    return HEIGHT - BELOW - value / top * (HEIGHT - BELOW - 30)


def film(replay_file: Path, out: Path) -> None:
    replay = open_replay(replay_file)
    with av.open(str(out), "w", format="webp") as container:
        stream = container.add_stream("libwebp_anim", rate=FRAMES_PER_SECOND)
        first = replay.image_at(0, SIZE)
        stream.height, stream.width = first.shape[:2]
        stream.pix_fmt = "bgra"
        stream.options = {"quality": "45", "compression_level": "6", "loop": "0"}
        for step in range(FRAMES):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(replay.image_at(step, SIZE)), format="rgb24")
            container.mux(stream.encode(frame.reformat(format="bgra")))
        container.mux(stream.encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
