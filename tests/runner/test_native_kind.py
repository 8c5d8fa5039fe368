import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.config.recipes.registry import find_recipe
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import RequestRefused, Resources
from palaestra.runner.native_kind import KIND

MACHINE = Resources(4, 0, 1000)
HERE = Path()


def prepare(machine=MACHINE, nproc=1, **config):
    return KIND.prepare(RunRequest("native", "cartpole", config, name="n", nproc=nproc), machine, HERE)


def test_what_is_run_is_the_recipe_with_the_settings_laid_over():
    prepared = prepare(total_steps=1e6)
    assert prepared.config == {**find_recipe("cartpole").config.model_dump(mode="json"), "total_steps": 1_000_000}
    assert prepared.total_steps == 1_000_000
    assert prepared.request.config == {"total_steps": 1e6}  # as asked


def test_every_process_and_every_thread_of_torch_takes_a_core():
    assert prepare(nproc=2, torch_threads=3).resources == Resources(6)


def test_processes_that_step_environments_take_cores_too_but_not_beside_those_of_torch():
    assert prepare(nproc=2, env={"workers": 2}).resources == Resources(6)
    assert prepare(torch_threads=4, env={"workers": 2}).resources == Resources(4)


@pytest.mark.parametrize(
    ("device", "gpus", "expected"), [("auto", 0, 0), ("auto", 2, 2), ("cpu", 2, 0), ("cuda", 0, 2)]
)
def test_a_card_for_each_process_where_cards_are_used(device, gpus, expected):
    assert prepare(Resources(4, gpus), nproc=2, device=device).resources.gpus == expected


def test_every_error_is_reported_under_its_key():
    with pytest.raises(RequestRefused) as refused:
        prepare(total_steps=-1, ppo={"gama": 0.9}, sead=3)
    assert [one.key for one in refused.value.field_errors] == ["total_steps", "ppo.gama", "sead"]


def test_an_unknown_recipe_is_refused_with_the_nearest():
    with pytest.raises(RequestRefused, match="Did you mean 'cartpole'") as refused:
        KIND.prepare(RunRequest("native", "cartpol", {}), MACHINE, HERE)
    assert refused.value.field_errors[0].key == "recipe"


def test_its_schema_describes_every_setting():
    assert "total_steps" in KIND.schema()["properties"]


def test_whoever_imports_it_has_no_torch():
    code = "import sys, palaestra.runner.native_kind, palaestra.runner.evaluate_kind; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
