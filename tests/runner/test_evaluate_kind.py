import pytest

from palaestra.checkpoints.files import sidecar_name
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import RequestRefused, Resources
from palaestra.runner.evaluate_kind import KIND, pin_target
from palaestra.runs.store import RunStore


@pytest.fixture
def run(tmp_path):
    made = RunStore(tmp_path).create(RunRequest("native", "cartpole", {}), {}, "trained")
    (made.checkpoints / sidecar_name(1)).touch()  # whether it holds is asked when it is judged
    return made


def prepare(root, nproc=1, **config):
    return KIND.prepare(RunRequest("evaluate", "", config, nproc=nproc), Resources(4), root)


def test_a_request_becomes_a_complete_configuration(run, tmp_path):
    prepared = prepare(tmp_path, target="trained:best", episodes=3, workers=2)
    assert prepared.config["target"] == f"{run.id}:best"
    assert (prepared.config["episodes"], prepared.config["seed"], prepared.config["repeat"]) == (3, None, False)
    assert prepared.resources == Resources(2)
    assert prepared.request.config["target"] == "trained:best"  # as asked


def test_latest_means_what_is_latest_now_and_not_the_evaluation_itself(run, tmp_path):
    pinned = pin_target("latest", tmp_path)
    RunStore(tmp_path).create(RunRequest("evaluate", "", {}), {})
    assert pinned == f"{run.id}:latest"


def test_a_run_elsewhere_stays_the_path_it_was(run, tmp_path):
    assert pin_target(f"{run.path}:best", tmp_path / "other") == f"{run.path}:best"


def test_all_mistakes_are_reported_at_once(tmp_path):
    with pytest.raises(RequestRefused) as refused:
        prepare(tmp_path, target="nobody", episodes=0, sead=1, nproc=2)
    assert {one.key for one in refused.value.field_errors} == {"target", "episodes", "sead", "nproc"}


def test_a_run_that_has_saved_nothing_is_refused_at_the_interface(tmp_path):
    RunStore(tmp_path).create(RunRequest("native", "cartpole", {}), {}, "fresh")
    with pytest.raises(NotFound, match="'fresh:latest' has no checkpoint"):
        pin_target("fresh:latest", tmp_path)


def test_a_setting_that_environments_do_not_have_is_refused_at_the_interface(run, tmp_path):
    with pytest.raises(RequestRefused, match="no setting 'idd'.*Did you mean 'id'"):
        prepare(tmp_path, target="trained", env={"idd": "CartPole-v1"})


def test_an_evaluation_of_nothing_is_refused(tmp_path):
    with pytest.raises(UsageError, match="needs a 'target'"):
        prepare(tmp_path)


def test_its_schema_describes_every_setting():
    assert all("description" in field for field in KIND.schema()["properties"].values())
