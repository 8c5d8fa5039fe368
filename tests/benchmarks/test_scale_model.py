"""The formulae against cases that can be worked out by hand, and against the simulation."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import scale_model
from scale import evaluation_page, page
from scale.delay_network import can_delay, open_machines
from scale.evaluations import EvaluationFigure, costs_of, measure_evaluations
from scale.model import (
    Cluster,
    SumCosts,
    Workload,
    expected_maximum,
    fit_costs,
    ordered_sum,
    predict_update,
    ring_sum,
)
from scale.plot import Curve, plot
from scale.result import Result, from_json, to_json
from scale.simulation import pass_links, simulate_ordered, simulate_ring, simulate_update, simulate_workers
from scale.sums import SumFigure, measure_gloo, measure_memory
from scale.training import RECIPES, TrainingFigure, measure_workload
from scale.workers import EvaluationCosts, predict_evaluations

from palaestra.training.engines import native_engine

SMALL = 1_000  # numbers of a sum whose bytes do not matter
needs_native = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")

COSTS = SumCosts(30e-6, 60e-6, 10e-6, 0.5e-9, 10e-6, 1e-6, 0.2e-9)
FREE = SumCosts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
WORK = Workload("small", 10_000, 16, 6, 1_000, (0.005, 0.006), (0.002, 0.0021, 0.003))
LIGHT = EvaluationCosts("light", 5, (0.01,), 0.01, 0.002, 0.001, 0.001, 40_000, 2_000, 200)


def sum_figures():
    figures = []
    for ranks in (2, 8):
        for numbers in (SMALL, 1_000_000):
            for algorithm, base in (("memory", 10e-6), ("ring", 100e-6), ("ordered", 80e-6)):
                seconds = base + (numbers - SMALL) * 4 * 1e-9
                figures.append(SumFigure(algorithm, ranks, numbers, seconds, seconds + (ranks - 2) * 10e-6))
    return figures


def a_result(evaluations=()):
    return Result(
        "x86_64, 2 cores",
        2,
        "2026-11-18",
        0.5,
        "0033.md",
        tuple(sum_figures()),
        tuple(replace(one, delay_seconds=2e-3) for one in sum_figures() if one.algorithm != "memory"),
        (WORK,),
        (TrainingFigure("small", 1, "memory", 0.045, 0.0), TrainingFigure("small", 2, "ordered", 0.05, 6.0)),
        tuple(evaluations),
        tuple(costs_of(one) for one in evaluations[:1]),
    )


def test_latency_of_the_ring_grows_with_ranks_and_that_of_two_rounds_does_not():
    """One rank a machine: gloo needs two delays for each message."""
    few, many = (Cluster(ranks, 1, 1e-3, float("inf")) for ranks in (4, 64))
    assert ring_sum(few, 10**6, FREE).total == pytest.approx(2 * 3 * 2e-3)
    assert ring_sum(many, 10**6, FREE).total == pytest.approx(2 * 63 * 2e-3)
    assert ordered_sum(few, 10**6, FREE).total == ordered_sum(many, 10**6, FREE).total == pytest.approx(2 * 2e-3)


def test_a_small_sum_takes_one_round():
    assert ordered_sum(Cluster(16, 1, 1e-3, float("inf")), 32, FREE).total == pytest.approx(2e-3)


def test_ranks_of_a_machine_share_its_link():
    """16 ranks on two machines: each sends half of its 2 * 15/16 * size to the other machine."""
    size, bandwidth = 10**6, 1e9
    seconds = ordered_sum(Cluster(16, 8, 0.0, bandwidth), size, FREE).total
    assert seconds == pytest.approx(8 * 2 * size * (8 / 16) / bandwidth)


def test_the_expected_maximum_is_that_of_many_draws():
    samples, rng = np.random.default_rng(1).gamma(2.0, size=50), np.random.default_rng(2)
    drawn = rng.choice(samples, (40_000, 16)).max(axis=1).mean()
    assert expected_maximum(samples, 16) == pytest.approx(drawn, rel=0.01)
    assert expected_maximum(samples, 1) == pytest.approx(samples.mean())


@pytest.mark.parametrize("algorithm", ["ring", "ordered"])
@pytest.mark.parametrize("ranks", [16, 64])
def test_formula_and_simulation_of_an_update_agree(algorithm, ranks):
    cluster = Cluster(ranks, 8, 100e-6, 1.25e9)
    simulated = simulate_update(WORK, cluster, algorithm, COSTS, 10, np.random.default_rng(0))
    assert predict_update(WORK, cluster, algorithm, COSTS).total == pytest.approx(simulated, rel=0.15)


@pytest.fixture
def _short_simulations(monkeypatch):
    monkeypatch.setattr(page, "SIMULATED_RANKS", (16,))
    monkeypatch.setattr(evaluation_page, "SIMULATED_SHARES", 500)


def test_a_rank_that_comes_late_makes_everybody_late():
    start = np.array([0.0, 0.0, 5.0, 0.0])
    cluster = Cluster(4, 1, 0.0, float("inf"))
    for simulate in (simulate_ring, simulate_ordered):
        assert simulate(start, cluster, 10**6, FREE) == pytest.approx([5.0] * 4)


def test_a_link_passes_one_message_after_another():
    done = pass_links(np.array([0.0, 0.0, 10.0, 0.5]), np.array([0, 0, 0, 1]), 1.0)
    assert done.tolist() == [1.0, 2.0, 11.0, 1.5]


def test_costs_are_found_again_in_figures_made_from_them():
    costs = fit_costs(sum_figures())
    assert costs.step == pytest.approx(50e-6)
    assert costs.exchange == pytest.approx(80e-6)
    assert costs.message == pytest.approx(10e-6)
    assert costs.byte == pytest.approx(1e-9, rel=0.01)


def test_few_workers_are_the_limit_and_many_wait_for_the_driver():
    few, many = (predict_evaluations(LIGHT, workers, 8, 1.25e9) for workers in (2, 1_000))
    assert (few.first_limit, few.evaluations_per_second) == ("workers", pytest.approx(2 / (0.05 + 0.01)))
    assert many.first_limit == "driver"
    shares = LIGHT.shares_of(1_000)
    assert many.evaluations_per_second == pytest.approx(1 / (shares * 0.002))
    assert predict_evaluations(LIGHT, 1_000, 8, 1.25e9, drivers=2).evaluations_per_second > many.evaluations_per_second


@pytest.mark.parametrize("workers", [2, 50, 400])
def test_formula_and_simulation_of_workers_agree(workers):
    limits = predict_evaluations(LIGHT, workers, 8, 1.25e9).limits
    simulated = simulate_workers(LIGHT, workers, 5_000, np.random.default_rng(0)) / LIGHT.shares_of(workers)
    assert min(limits["workers"], limits["driver"]) == pytest.approx(simulated, rel=0.1)


@pytest.mark.usefixtures("_short_simulations")
def test_the_page_and_the_plot_are_written_from_the_json_alone(tmp_path, monkeypatch, capsys):
    cpu = {"requester": 0.001, "driver": 0.002, "head": 0.001}
    sizes = {"weights": 40_000, "share": 2_000, "episode": 200}
    figure = EvaluationFigure("cartpole", 1, 5, 15.0, cpu, (0.01, 0.012), sizes)
    (tmp_path / "scale.json").write_text(json.dumps(to_json(a_result([figure, replace(figure, workers=2)]))))
    monkeypatch.setattr(sys, "argv", ["scale_model.py", "--page-only", "--out", str(tmp_path)])
    assert scale_model.main() == 0
    text = (tmp_path / "scale.md").read_text()
    assert "| 256 |" in text
    assert "| small | 2 | ordered | 50.0 |" in text
    assert "| cartpole | 1,000 |" in text
    assert "Where it breaks first" in capsys.readouterr().out
    assert (tmp_path / "scale.svg").read_text().count("<polyline") == 3


def test_a_result_is_the_same_after_json():
    assert to_json(from_json(json.loads(json.dumps(to_json(a_result()))))) == to_json(a_result())


@pytest.mark.usefixtures("_short_simulations")
def test_what_was_not_measured_is_named():
    text = page.page(replace(a_result(), delayed=()))
    assert "No delay between machines was measured" in text
    assert "Nothing was measured: Ray is not installed" in text


def test_curves_below_one_rank_stay_inside_the_plot():
    text = plot("t", [Curve("c", ((1, 1.0), (4, 0.1)), "#000", is_dashed=True)])
    assert 'stroke-dasharray="5 4"' in text
    assert "-" not in text.split('points="')[2].split('"')[0]


@needs_native
@pytest.mark.slow
def test_real_ranks_are_measured_through_memory_and_over_loopback():
    figures = [*measure_memory(2, (SMALL,), 3), *measure_gloo(2, (SMALL,), 3)]
    assert [one.algorithm for one in figures] == ["memory", "ring", "ordered"]
    assert all(one.seconds > 0 and one.cpu_seconds > 0 and one.ranks == 2 for one in figures)


@pytest.mark.slow
@pytest.mark.skipif(not can_delay(), reason="network namespaces and TUN devices need root")
def test_a_delay_between_namespaces_is_felt_by_a_sum():
    with open_machines(2, 0.02) as machines:
        ring, ordered = measure_gloo(2, (SMALL,), 3, machines=machines, delay_seconds=0.02)
    assert 0.02 <= ordered.seconds < ring.seconds


@needs_native
@pytest.mark.slow
def test_a_workload_has_the_minibatches_of_its_recipe():
    name = next(iter(RECIPES))
    work = measure_workload(name, 0.2, 5)
    assert (work.minibatches, work.steps) == (16, 256 * 64)
    assert len(work.minibatch) == 16 * len(work.rollout)
    assert work.seconds_alone > 0


@pytest.mark.slow
def test_real_evaluations_on_ray_are_measured():
    """Two episodes of each of three checkpoints; the first evaluation only warms up."""
    pytest.importorskip("ray")
    figure = measure_evaluations("cartpole", workers=1, checkpoints=3, episodes=2)
    assert (figure.workers, figure.episodes, len(figure.episode_samples)) == (1, 2, 3)
    assert figure.evaluations_per_second > 0
    assert figure.sizes["weights"] > figure.sizes["share"] > figure.sizes["episode"] > 0
    assert costs_of(figure).weights == figure.sizes["weights"]
