import json
from pathlib import Path

from palaestra.cli import doctor


def test_everything_is_examined_and_nothing_is_left_behind(call, workplace):
    code, out, _ = call("doctor", "--json")
    found = {one["what"]: one for one in json.loads(out)}
    assert code == 0
    assert {"python", "torch", "cuda", "gymnasium", "extra mujoco", "C++ compiler", "MUJOCO_GL"} <= found.keys()
    assert {"free disk", "fsync", "runs directory"} <= found.keys()
    assert found["python"]["fine"]
    assert list(workplace.iterdir()) == []


def test_a_missing_extra_comes_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(doctor, "is_installed", lambda extra: extra != "box2d")
    (missing,) = [one for one in doctor.examine_extras() if one.found == "missing"]
    assert "palaestra[box2d]" in missing.advice


def test_a_place_that_cannot_be_written_is_reported_with_the_way_out(monkeypatch):
    def refuse(_directory: Path) -> float:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "_fsync_seconds", refuse)
    (finding,) = [one for one in doctor.examine_runs_directory() if one.what == "runs directory"]
    assert not finding.fine
    assert "Permission denied" in finding.found
    assert "PALAESTRA_RUNS_DIR" in finding.advice


def test_a_slow_disk_and_a_full_one_are_reported(monkeypatch):
    monkeypatch.setattr(doctor, "_fsync_seconds", lambda _directory: 1.0)
    monkeypatch.setattr(doctor, "LOW_DISK", 1 << 80)
    assert {one.what for one in doctor.examine_runs_directory() if not one.fine} == {"fsync", "free disk"}


def test_a_run_that_takes_much_of_the_disk_is_reported_with_its_largest_part(monkeypatch, make_run):
    directory = make_run("first")
    make_run("second")
    directory.metrics_file.write_bytes(bytes(300_000))
    monkeypatch.setattr(doctor, "LARGE_RUN", 200_000)
    total, large = doctor.examine_runs()
    assert (total.what, total.fine) == ("runs", True)
    assert total.found.startswith("2, ")
    assert (large.what, large.fine) == ("run first", False)
    assert "most of it metrics" in large.found
    assert "palaestra runs disk first" in large.advice
    assert "loggers.downsample" in large.advice


def test_a_package_that_is_not_there_is_no_crash():
    assert not doctor._package("no-such-package-at-all").fine
