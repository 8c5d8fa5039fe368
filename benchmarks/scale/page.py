"""docs/benchmarks/scale.md: what was measured, what the model says, and how far both agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scale.evaluation_page import PER_MACHINE, evaluation_text, first_other_limit, table
from scale.model import FLOAT, Cluster, expected_maximum, predict_update
from scale.plot import COLOURS, Curve, plot
from scale.simulation import simulate_update

if TYPE_CHECKING:
    from scale.model import SumCosts, UpdateTime, Workload
    from scale.result import Result

RANKS = (2, 4, 8, 16, 32, 64, 128, 256)
LATENCIES = (20e-6, 100e-6, 500e-6)
GIGABITS = (10, 100)
USUAL = (100e-6, 10)
SIMULATED_RANKS = (16, 64, 256)
SIMULATED_UPDATES = 3
NAMES = {
    "ring": "gloo's ring (before)",
    "ordered": "two rounds (now)",
    "grouped": "one message per machine (not built)",
}


def cluster_of(ranks: int, latency: float, gigabits: float) -> Cluster:
    return Cluster(ranks, PER_MACHINE, latency, gigabits * 1e9 / 8)


def predict(work: Workload, ranks: int, network: tuple[float, float], algorithm: str, costs: SumCosts) -> UpdateTime:
    """On one machine ranks share memory, whatever they would do between machines."""
    cluster = cluster_of(ranks, *network)
    return predict_update(work, cluster, algorithm if cluster.is_network else "memory", costs)


def speed_up(work: Workload, ranks: int, network: tuple[float, float], algorithm: str, costs: SumCosts) -> float:
    return ranks * work.seconds_alone / predict(work, ranks, network, algorithm, costs).total


def page(result: Result) -> str:
    return (
        "\n\n".join(
            [
                heading(result),
                first_limits(result),
                "## Measured: one sum over all ranks",
                sums_text(result),
                sums_table(result),
                delayed_text(result),
                "## Measured: one rank's update",
                workload_table(result),
                "## Predicted: updates per second",
                predicted_text(),
                *(prediction_table(work, result.costs) for work in result.workloads),
                "The same at 64 and 256 ranks for other networks (speed-up over one rank):",
                network_table(result),
                "## How far the model is right",
                simulation_text(result),
                reality_text(result),
                "## Evaluations per second",
                evaluation_text(result),
                "## Not in the model",
                OMITTED,
            ]
        )
        + "\n"
    )


def heading(result: Result) -> str:
    return f"""# Many ranks, many workers: a model

Written by `python benchmarks/scale_model.py` on {result.date}: {result.machine}, load before it
began {result.load:.1f}. There is no cluster here. Everything below 'Measured' was measured on this machine; everything
below 'Predicted' is arithmetic with those figures, checked by a simulation and, as far as two cores reach, by real
processes. All figures: [scale.json](scale.json).{f" **{result.note}**" if result.note else ""}

![Speed-up over ranks, before and now](scale.svg)"""


def first_limits(result: Result) -> str:
    lines = [
        "**Where it breaks first** (8 ranks a machine, 100 µs, 10 Gbit/s; at half of the ideal speed-up or below):",
        "",
    ]
    for work in result.workloads:
        found = [f"{label}: {breaks_at(work, name, result.costs)}" for name, label in NAMES.items()]
        lines.append(f"- {work.name}: {'; '.join(found)}.")
    for costs in result.evaluation_costs:
        limit = first_other_limit(costs)
        lines.append(f"- Evaluations, {costs.name}: {limit}.")
    return "\n".join(lines)


def breaks_at(work: Workload, algorithm: str, costs: SumCosts) -> str:
    for ranks in RANKS:
        update = predict(work, ranks, USUAL, algorithm, costs)
        if work.seconds_alone / update.total < 0.5:
            return f"{ranks} ranks ({update.largest_loss()})"
    return "not up to 256 ranks"


def sums_text(result: Result) -> str:
    return f"""Medians of the slowest rank, float32, over loopback and through shared memory; in parentheses
the processor time of one rank. With more than {result.cores} ranks the ranks wait for a core, not for each other, so
there only processor times can be compared. `ring` is gloo's all_reduce, `ordered` is ours
([decision](../decisions/{result.decision}))."""


def sums_table(result: Result) -> str:
    found = {(one.algorithm, one.ranks, one.numbers): one for one in result.sums}
    rows = []
    for ranks, numbers in sorted({(one.ranks, one.numbers) for one in result.sums}):
        cells = []
        for name in ("memory", "ring", "ordered"):
            one = found.get((name, ranks, numbers))
            cells.append(f"{micro(one.seconds)} ({micro(one.cpu_seconds)})" if one else "")
        rows.append([f"{ranks}", f"{numbers:,}", *cells])
    return table(["ranks", "numbers", "memory, µs", "ring, µs", "ordered, µs"], rows)


def delayed_text(result: Result) -> str:
    if not result.delayed:
        return "No delay between machines was measured: that needs root, `ip` and `/dev/net/tun`."
    found = {(one.algorithm, one.ranks, one.numbers, one.delay_seconds): one for one in result.delayed}
    keys = sorted({(one.delay_seconds, one.ranks, one.numbers) for one in result.delayed})
    rows = []
    for delay, ranks, numbers in keys:
        ring, ours = (found[name, ranks, numbers, delay].seconds for name in ("ring", "ordered"))
        delays = [f"{seconds * 1e3:.1f} ({seconds / delay:.1f})" for seconds in (ring, ours)]
        rows.append([f"{delay * 1e3:g}", f"{ranks}", f"{numbers:,}", *delays, f"{ring / ours:.1f}"])
    head = ["delay one way, ms", "ranks", "numbers", "ring, ms (delays)", "ordered, ms (delays)", "times faster"]
    return f"""Between network namespaces with a delay, one rank in each (a forwarder between TUN devices, because this
kernel has no `netem`). In parentheses how many delays a sum took. The forwarder is slow at many bytes, so this is about
latency only.

{table(head, rows)}"""


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}"


def workload_table(result: Result) -> str:
    rows = []
    for work in result.workloads:
        rollout, minibatch = np.array(work.rollout), np.array(work.minibatch)
        rows.append(
            [
                work.name,
                f"{work.numbers:,}",
                f"{work.minibatches}",
                f"{work.numbers * FLOAT * work.minibatches / 1e6:.1f} MB",
                f"{rollout.mean() * 1e3:.1f} ms",
                f"{minibatch.mean() * 1e3:.2f} ms",
                f"{minibatch.std() / minibatch.mean():.0%}",
                f"{expected_maximum(minibatch, 256) / minibatch.mean():.2f}",
                f"{1 / work.seconds_alone:.2f}",
            ]
        )
    head = ["recipe", "numbers", "minibatches", "gradients of an update", "rollout", "one minibatch", "deviation"]
    return table([*head, "slowest of 256 / mean", "updates/s alone"], rows)


def predicted_text() -> str:
    return """Every rank has as many environments as one alone, so N ranks take N times the steps in an update;
speed-up is in steps per second. Up to 8 ranks are one machine and share memory. 100 µs one way, 10 Gbit/s. 'Loses
most to': stragglers (waiting for the slowest rank), latency (of the network), messages (work for each of them) or
bandwidth."""


def prediction_table(work: Workload, costs: SumCosts) -> str:
    rows = []
    for ranks in RANKS:
        updates = [predict(work, ranks, USUAL, name, costs) for name in NAMES]
        cells = [f"{1 / one.total:.2f} ({ranks * work.seconds_alone / one.total:.1f}x)" for one in updates]
        rows.append([f"{ranks}", *cells, updates[0].largest_loss(), updates[1].largest_loss()])
    head = ["ranks", *NAMES.values(), "before, loses most to", "now, loses most to"]
    return f"**{work.name}** (updates/s, and speed-up):\n\n{table(head, rows)}"


def network_table(result: Result) -> str:
    rows = []
    for work in result.workloads:
        for gigabits in GIGABITS:
            for latency in LATENCIES:
                cells = [
                    f"{speed_up(work, ranks, (latency, gigabits), name, result.costs):.0f}"
                    for ranks in (64, 256)
                    for name in NAMES
                ]
                rows.append([work.name, f"{latency * 1e6:.0f} µs, {gigabits} Gbit/s", *cells])
    head = [f"{ranks}: {label}" for ranks in (64, 256) for label in ("ring", "two rounds", "per machine")]
    return table(["recipe", "network", *head], rows)


def simulation_text(result: Result) -> str:
    rng, differences, rows = np.random.default_rng(0), [], []
    for work in result.workloads:
        for ranks in SIMULATED_RANKS:
            cluster, cells = cluster_of(ranks, *USUAL), []
            for name in ("ring", "ordered"):
                simulated = simulate_update(work, cluster, name, result.costs, SIMULATED_UPDATES, rng)
                formula = predict_update(work, cluster, name, result.costs).total
                differences.append(abs(formula / simulated - 1))
                cells += [f"{formula * 1e3:.0f}", f"{simulated * 1e3:.0f}"]
            rows.append([work.name, f"{ranks}", *cells])
    head = ["recipe", "ranks", "ring, formula, ms", "simulated", "two rounds, formula, ms", "simulated"]
    return f"""**Formula and simulation.** The simulation passes every message through the links of both machines,
draws every rank's times by itself, and lets a rank go on as soon as it has what it needs. Largest
difference: {max(differences):.0%}.

{table(head, rows)}"""


def reality_text(result: Result) -> str:
    rows = [
        [
            row["name"],
            f"{row['ranks']}",
            row["transport"],
            f"{row['measured'] * 1e3:.1f}",
            f"{row['model'] * 1e3:.1f}",
            f"{row['model'] / row['measured'] - 1:+.0%}",
        ]
        for row in compare_with_reality(result)
    ]
    head = ["recipe", "ranks", "through", "measured, ms", "model, ms", "model is off by"]
    return f"""**Model and real processes** on this machine ({result.cores} cores), one update. With more ranks than
cores the model multiplies what a rank does by itself, which is all that can be said without more cores.

{table(head, rows)}"""


def compare_with_reality(result: Result) -> list[dict[str, Any]]:
    by_name, rows = {work.name: work for work in result.workloads}, []
    for figure in result.trainings:
        cluster = Cluster(figure.ranks, figure.ranks, 0.0, float("inf"))
        update = predict_update(by_name[figure.name], cluster, figure.transport, result.costs)
        crowding = max(1.0, figure.ranks / result.cores)
        rows.append(
            {
                "name": figure.name,
                "ranks": figure.ranks,
                "transport": figure.transport,
                "measured": figure.seconds,
                "model": update.total * crowding,
            }
        )
    return rows


def figure(result: Result) -> str:
    curves = []
    for work, colour in zip(result.workloads, COLOURS, strict=False):
        for name, label in (("ring", "before"), ("ordered", "now")):
            points = tuple((ranks, speed_up(work, ranks, USUAL, name, result.costs)) for ranks in (1, *RANKS))
            curves.append(Curve(f"{work.name.split(',')[0]}, {label}", points, colour, is_dashed=name == "ring"))
    return plot("Predicted speed-up: 8 ranks a machine, 100 µs, 10 Gbit/s", curves)


OMITTED = """- Switches that are shared, lost packets, TCP's slow start: a busy network is slower than its data sheet.
- Ranks that share the memory bandwidth of a machine: 8 ranks on 8 cores compute more slowly than one alone, by a
  factor that two cores cannot show.
- Whether so many samples in a minibatch still help learning. 256 ranks of a recipe have minibatches 256 times as large.
- Start, checkpoints and evaluations. The leader writes alone, about once a second at most.
- nccl between devices: there is no GPU here."""
