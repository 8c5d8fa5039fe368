"""What is decided before Ray is asked; trainings themselves are in tests/processes/test_ray_training.py."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from palaestra.cluster.training import launch
from palaestra.cluster.training.launch import launch_on_ray, local_numbers, require_resources, wants_gpu
from palaestra.cluster.training.rank_actor import ActorSite
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest
from palaestra.runner.job import TrainingJob
from palaestra.runs.environment import code_identity, package_files


def session(cpus=4.0, gpus=0.0, *, is_embedded=False):
    return SimpleNamespace(cpus=cpus, gpus=gpus, is_embedded=is_embedded, address="10.0.0.5:6379")


@pytest.mark.parametrize(
    ("device", "gpus", "wanted"),
    [("cpu", 8, False), ("cuda", 0, True), ("auto", 1, False), ("auto", 2, True), ("auto", 0, False)],
)
def test_gpus_are_requested_by_name_or_where_there_is_one_for_everybody(device, gpus, wanted):
    assert wants_gpu(device, gpus, 2) is wanted


def test_too_few_processors_are_refused_with_both_numbers():
    require_resources(session(4), 4, with_gpu=False)
    with pytest.raises(UsageError, match=r"nproc=5 needs 5 CPUs.*has 4.*palaestra worker --address 10.0.0.5:6379"):
        require_resources(session(4), 5, with_gpu=False)
    with pytest.raises(UsageError, match=r"has 4.*cluster.cpus"):
        require_resources(session(4, is_embedded=True), 5, with_gpu=False)


def test_too_few_gpus_are_refused_although_there_are_processors():
    with pytest.raises(UsageError, match="nproc=2 needs 2 GPUs.*has 1"):
        require_resources(session(8, 1.0), 2, with_gpu=True)


def test_ranks_are_counted_anew_on_each_machine():
    sites = [ActorSite(node, node, "", sees_runs=True) for node in "aabab"]
    assert local_numbers(sites) == [0, 1, 0, 2, 1]


def test_under_torchrun_nothing_is_placed(monkeypatch):
    location = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}
    for name, value in location.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="RANK=0"):
        launch_on_ray(None, 2)


class PaperRay:
    """Two machines, of which the second has a disk of its own."""

    util = SimpleNamespace(placement_group_table=lambda group: {"bundles_to_node_id": {0: "a", 1: "b"}})

    def nodes(self):
        return [{"NodeID": "a", "NodeManagerAddress": "10.0.0.1"}, {"NodeID": "b", "NodeManagerAddress": "fd00::2"}]

    def get(self, references, timeout):
        return references


def paper_actor(sees_runs, code=None, files=None):
    def site(node, address, runs_root, marker, modules):
        return ActorSite(node, f"host-{node}", address, sees_runs, code)

    differences = None if files is None else {"versions": [], "package": files, "modules": {}}
    return SimpleNamespace(
        site=SimpleNamespace(remote=site), code_differences=SimpleNamespace(remote=lambda expected: differences)
    )


def job(tmp_path):
    return TrainingJob(RunRequest("native", "cartpole", {}), TrainConfig(), tmp_path / "runs")


def test_each_machine_says_for_itself_whether_it_sees_the_runs_and_nothing_is_left(tmp_path):
    sites = launch._sites(PaperRay(), None, [paper_actor(True), paper_actor(False)], job(tmp_path))
    assert [(site.host, site.address, site.sees_runs) for site in sites] == [
        ("host-a", "10.0.0.1", True),
        ("host-b", "fd00::2", False),
    ]
    assert list(tmp_path.iterdir()) == []


def test_different_code_is_refused_with_its_machine_and_file(tmp_path):
    here = code_identity()
    other = replace(here, package="another")
    actors = [
        paper_actor(True, here),
        paper_actor(True, other, {**package_files(), "algorithms/ppo/update.py": "edited"}),
    ]
    sites = launch._sites(PaperRay(), None, actors, job(tmp_path))
    refusal = r"host-b \(fd00::2\): palaestra/algorithms/ppo/update.py.*allow_different_code"
    with pytest.raises(UsageError, match=refusal):
        launch._require_same_code(PaperRay(), actors, sites, job(tmp_path))
    launch._require_same_code(PaperRay(), actors[:1], sites[:1], job(tmp_path))
