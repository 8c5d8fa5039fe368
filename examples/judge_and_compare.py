"""Two ways to learn, three seeds each: judge them all, and see which is better and how sure that is.

Written to be read from top to bottom, like a notebook; each block stands alone.
"""

from pathlib import Path

import palaestra

# %% Six short runs. Within a way they differ in their seed alone, which is what makes them one group.
WAYS = {"careful": 3e-4, "bold": 3e-3}
SEEDS = (1, 2, 3)
names = [f"{way}-{seed}" for way in WAYS for seed in SEEDS]
for way, learning_rate in WAYS.items():
    for seed in SEEDS:
        settings = {"ppo.learning_rate": learning_rate}
        palaestra.train("cartpole", run=f"{way}-{seed}", seed=seed, total_steps=1_024, **settings)

# %% Judge the last checkpoint of each on the same ten seeds; an exact list of returns comes back.
for name in names:
    report = palaestra.evaluate(f"{name}:latest", episodes=10, seed=1_000)
    print(f"{name}: {report.mean:.1f}, from {min(report.returns):g} to {max(report.returns):g}")

# %% Compare. Intervals are over runs, because another seed of training matters more than another episode.
analysis = palaestra.analyze(*(f"{name}:latest" for name in names), html=Path("comparison.html"))
for group in analysis.scores.groups:
    (cell,) = group.cells.values()
    print(f"{group.label}: IQM {cell.iqm.value:.1f}, 95 % from {cell.iqm.low:.1f} to {cell.iqm.high:.1f}")
(pair,) = analysis.scores.improvements
print(f"{pair.better} is above {pair.worse} with probability {pair.probability.value:.2f}")

# %% How they learned: the last mean of each curve, over three runs.
for curve in analysis.charts[0].curves:
    print(f"{curve.label}: {analysis.charts[0].metric} {curve.mean[-1]:.1f} after {curve.steps[-1]:.0f} steps")

# %% One policy, watched and asked.
film = palaestra.film("bold-1:latest", grid=4, out=Path("bold.mp4"))
print(f"{film.path}: {film.pictures} pictures of {film.width} x {film.height}")
policy = palaestra.load_policy("bold-1:latest")
print(f"pole leaning right: action {policy.act([0.0, 0.0, 0.1, 0.0])}")
