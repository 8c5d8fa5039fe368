from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest

from palaestra.checkpoints.durable import commit, rewrite_sidecar
from palaestra.checkpoints.files import model_name, sidecar_name, trainer_state_name
from palaestra.checkpoints.selection import survey
from palaestra.web.resources import checkpoints
from palaestra.web.resources.checkpoints import SidecarCache, describe_normalisers


def test_checkpoints_are_listed_with_the_best_and_the_latest(client, make_run, save_checkpoint):
    directory = make_run("first")
    for epoch, score in ((10, 3.0), (20, 5.0), (30, None)):
        save_checkpoint(directory, epoch, score)
    found = client.get("/api/runs/first/checkpoints").json()
    assert [(one["epoch"], one["score"], one["is_best"], one["is_latest"]) for one in found["checkpoints"]] == [
        (10, 3.0, False, False),
        (20, 5.0, True, False),
        (30, None, False, True),
    ]
    size = (directory.checkpoints / model_name(10)).stat().st_size
    assert found["checkpoints"][0]["bytes"] == size
    assert found["checkpoints"][0]["created_at"] == 1010.0


def test_a_damaged_checkpoint_is_named_with_the_reason(client, make_run, save_checkpoint):
    directory = make_run("first")
    save_checkpoint(directory, 10)
    save_checkpoint(directory, 20)
    (directory.checkpoints / model_name(20)).write_bytes(b"short")
    found = client.get("/api/runs/first/checkpoints").json()
    assert [one["epoch"] for one in found["checkpoints"]] == [10]
    assert [one["file"] for one in found["refused"]] == [sidecar_name(20)]
    assert "cut short" in found["refused"][0]["reason"]


@pytest.mark.parametrize(("selector", "epoch"), [("", 20), (":latest", 20), (":best", 10), (":10", 10)])
def test_inspect_returns_everything_about_a_target(client, make_run, save_checkpoint, selector, epoch):
    directory = make_run("first", config={"evaluation": {"episodes": 7}})
    save_checkpoint(directory, 10, 9.0, seed=3)
    save_checkpoint(directory, 20, 1.0, seed=3)
    found = client.get(f"/api/checkpoints/inspect?target=first{selector}").json()
    assert found["target"] == f"{directory.id}:{epoch}"
    assert found["checkpoint"]["epoch"] == epoch
    assert found["env"]["id"] == "CartPole-v1"
    assert found["policy"] == {"graph": "mlp"}
    assert found["seed"] == 3
    assert found["suite"] == {"episodes": 7}
    assert found["normalisers"] == {"observations": False, "returns": False, "copies": 0}
    assert found["tensors"] == [{"name": "w", "dtype": "F32", "shape": [2, 2]}]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("nobody", 404),
        ("first:99", 404),
        ("first:worst", 422),
        ("first:/etc/passwd.yaml", 422),
        ("first:../model.safetensors", 422),
        ("/etc/passwd.yaml", 404),
        ("hub:owner/name", 404),
        ("first:best", 404),
        ("", 422),
    ],
)
def test_an_invalid_target_is_refused(client, make_run, save_checkpoint, target, status):
    save_checkpoint(make_run("first"), 10, None)
    assert client.get("/api/checkpoints/inspect", params={"target": target}).status_code == status


def test_a_download_is_a_zip_of_sidecar_and_weights(client, make_run, save_checkpoint):
    directory = make_run("first")
    save_checkpoint(directory, 10)
    reply = client.get("/api/runs/first/checkpoints/10/download")
    assert reply.headers["content-type"] == "application/zip"
    assert 'filename="first-10.zip"' in reply.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(reply.content)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [sidecar_name(10), model_name(10)]
        assert archive.read(model_name(10)) == (directory.checkpoints / model_name(10)).read_bytes()


@pytest.mark.parametrize("epoch", ["99", "latest", "-1", "1e3", "٣", "1" * 30])
def test_a_missing_checkpoint_is_404(client, make_run, save_checkpoint, epoch):
    save_checkpoint(make_run("first"), 10)
    assert client.get(f"/api/runs/first/checkpoints/{epoch}/download").status_code == 404


def test_a_run_without_checkpoints_has_an_empty_list(client, make_run):
    make_run("first")
    assert client.get("/api/runs/first/checkpoints").json() == {"checkpoints": [], "refused": []}
    assert client.get("/api/checkpoints/inspect?target=first").status_code == 404


def test_checkpoints_are_served_without_torch():
    code = (
        "import sys\n"
        "import palaestra.web.app, palaestra.web.resources\n"
        "print([name for name in ('torch', 'gymnasium', 'safetensors', 'tensorboard') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_normalisers_are_found_by_the_names_of_the_tensors():
    ours = ["network.a.weight", "observation_normalizer.mean", "return_scaler.variance"]
    assert describe_normalisers(ours) == {"observations": True, "returns": True, "copies": 0}
    script = ["agent.a.weight", *(f"normalisers.{env}.{part}" for env in range(8) for part in ("mean", "var", "count"))]
    assert describe_normalisers(script) == {"observations": True, "returns": False, "copies": 8}
    assert describe_normalisers(["agent.normalisers.mean"])["observations"] is False


@pytest.fixture
def directory(make_run, save_checkpoint):
    directory = make_run("first")
    for epoch in (10, 20, 30):
        save_checkpoint(directory, epoch)
    return directory.checkpoints


def test_the_sidecar_cache_returns_the_same_as_a_survey(directory):
    (directory / model_name(20)).write_bytes(b"short")
    (directory / sidecar_name(30)).write_text("damaged")
    shelf = SidecarCache()
    for _ in range(2):
        assert shelf.survey(directory) == survey(directory)


def test_an_unchanged_sidecar_is_not_read_again(directory, monkeypatch):
    shelf = SidecarCache()
    before = shelf.survey(directory)
    monkeypatch.setattr(checkpoints, "read_sidecar", lambda *_: pytest.fail("it was read again"))
    assert shelf.survey(directory) == before


def test_a_new_score_and_a_removed_checkpoint_are_noticed(directory):
    shelf = SidecarCache()
    checkpoint = shelf.survey(directory).checkpoints[0]
    rewrite_sidecar(directory, replace(checkpoint, score=99.0))
    assert [one.score for one in shelf.survey(directory).checkpoints] == [99.0, 1.5, 1.5]
    (directory / sidecar_name(10)).unlink()
    assert [one.epoch for one in shelf.survey(directory).checkpoints] == [20, 30]


def test_a_trainer_state_removed_during_a_survey_is_not_damage(directory, monkeypatch):
    """Retention rewrites the sidecar and takes the state away between our reading the one and looking for the other."""
    refresh_changed, state = checkpoints.check_sizes, directory / trainer_state_name(20)
    before = SidecarCache().survey(directory).checkpoints[1]
    commit(directory, 20, {model_name(20): b"weights", state.name: b"state"}, before)

    def drop_then_check(folder, checkpoint):
        if checkpoint.epoch == 20 and state.exists():
            rewrite_sidecar(folder, replace(checkpoint, files={model_name(20): checkpoint.files[model_name(20)]}))
            state.unlink()
        refresh_changed(folder, checkpoint)

    monkeypatch.setattr(checkpoints, "check_sizes", drop_then_check)
    found = SidecarCache().survey(directory)
    assert not state.exists()
    assert [list(one.files) for one in found.checkpoints] == [[model_name(epoch)] for epoch in (10, 20, 30)]
    assert found.refused == ()


def test_missing_weights_are_noticed_for_a_cached_sidecar(directory):
    shelf = SidecarCache()
    shelf.survey(directory)
    (directory / model_name(10)).unlink()
    assert [one.path.name for one in shelf.survey(directory).refused] == [sidecar_name(10)]


def test_the_sidecar_cache_is_bounded(directory):
    shelf = SidecarCache(max_cached=2)
    assert len(shelf.survey(directory).checkpoints) == 3
    assert len(shelf._cached) == 2
