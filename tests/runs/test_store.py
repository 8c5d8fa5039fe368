from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePath

import pytest

from palaestra.core.errors import NotFound, RunFailed, UsageError
from palaestra.core.run import NEWER_VERSION, RunRecord, RunState
from palaestra.runs import store as store_module
from palaestra.runs.documents import read_config, read_request
from palaestra.runs.identity import RunNames
from palaestra.runs.journal import read_journal
from palaestra.runs.lock import run_lock
from palaestra.runs.processes import process_started_at
from palaestra.runs.status import read_record, write_record
from palaestra.runs.store import RunStore, read_manifest, runs_root, select


def test_the_manifest_leads_back_to_who_requested_the_run(directory, request_for_a_run):
    manifest = read_manifest(directory)
    assert (manifest["run"], manifest["name"]) == (directory.id, "a")
    assert manifest["recipe"] == "cartpole"
    assert manifest["command"] == request_for_a_run.command
    assert manifest["submitted_by"] == "cli"
    assert json.loads(directory.manifest_file.read_text())["schema_version"] == 1


def test_every_entry_is_a_relative_path_of_a_known_kind(directory):
    entries = read_manifest(directory)["entries"]
    for entry in entries.values():
        assert len(PurePath(entry["path"]).parts) == 1
        assert entry["kind"] in {"yaml", "json", "jsonl", "sqlite", "directory"}


def test_everything_visible_in_a_new_run_is_on_the_map(directory):
    listed = {entry["path"] for entry in read_manifest(directory)["entries"].values()}
    there = {path.name for path in directory.path.iterdir() if not path.name.startswith(".")}
    assert there - listed == {"manifest.json"}
    for entry in read_manifest(directory)["entries"].values():
        if entry["kind"] == "directory":
            assert (directory.path / entry["path"]).is_dir()


NOBODY = 65534
CREATE = """
import sys; from pathlib import Path
from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore
store = RunStore(Path(sys.argv[1])); print("ready", flush=True); input()
for number in range(10**6): store.create(RunRequest("native", "r", {}), {"n": number}, f"run-{sys.argv[2]}-{number}", 1)
"""


def visible(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def running(record):
    return replace(record, state=RunState.RUNNING, pid=os.getpid(), pid_started_at=process_started_at(os.getpid()))


def test_the_root_is_a_setting_or_runs_in_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("PALAESTRA_RUNS_DIR", raising=False)
    assert runs_root() == Path("runs")
    monkeypatch.setenv("PALAESTRA_RUNS_DIR", str(tmp_path))
    assert runs_root() == tmp_path
    assert RunStore().root == tmp_path


def test_a_new_run_is_complete(store, directory, request_for_a_run):
    assert visible(store.root) == {directory.id, "by-name"}
    assert visible(store.root / "by-name") == {"a"}
    directories = {entry.name for entry in directory.path.iterdir() if entry.is_dir()}
    assert visible(directory.path) - directories == {
        "request.yaml",
        "config.yaml",
        "environment.json",
        "journal.jsonl",
        "status.json",
        "manifest.json",
    }
    assert read_request(directory) == request_for_a_run
    assert read_config(directory) == {"total_steps": 1000, "seed": 1}
    record = read_record(directory)
    assert (record.id, record.name, record.state, record.total_steps) == (directory.id, "a", RunState.QUEUED, 1000)
    assert [entry.event for entry in read_journal(directory.journal_file)] == ["run.created"]
    assert json.loads(directory.environment_file.read_text())["schema_version"] == 1


def test_the_journal_of_a_new_run_carries_its_final_id(directory):
    assert json.loads(directory.journal_file.read_text())["run"] == directory.id


def test_a_run_is_found_in_every_way(store, directory):
    for selector in ("a", directory.id, directory.id.lower(), directory.id[:12], "latest", str(directory.path)):
        assert store.resolve(selector) == directory
    assert store.find("b") is None
    assert store.find("0" * 26) is None
    with pytest.raises(NotFound):
        store.resolve("b")


def test_latest_is_the_newest_also_when_the_clock_of_another_process_was_ahead(store, directory, request_for_a_run):
    future = "5" + directory.id[1:]
    directory.path.rename(store.root / future)
    newest = store.create(request_for_a_run, {}, "b", 1)
    assert newest.id > future
    assert store.resolve("latest") == newest
    store_module.new_run_id.__globals__["_last"] = 0


def test_without_a_name_a_run_gets_a_nickname(store, request_for_a_run):
    first, second = (store.create(request_for_a_run, {}) for _ in range(2))
    names = [read_record(run).name for run in (first, second)]
    assert names[0] != names[1]
    assert store.resolve(names[0]) == first


def test_the_name_in_the_request_will_do(store, request_for_a_run):
    directory = store.create(replace(request_for_a_run, name="asked for"), {})
    assert store.resolve("asked for") == directory


def test_when_all_nicknames_are_taken_another_one_is_made(store, directory, request_for_a_run, monkeypatch):
    monkeypatch.setattr(store_module, "nickname", lambda: "a")
    other = store.create(request_for_a_run, {})
    assert read_record(other).name != "a"


def test_a_taken_name_is_refused_and_leaves_nothing_behind(store, directory, request_for_a_run):
    before = visible(store.root)
    with pytest.raises(UsageError, match="already a run called 'a'"):
        store.create(request_for_a_run, {}, "a", 1)
    assert visible(store.root) == before


def test_a_bad_name_is_refused_before_anything_is_made(store, request_for_a_run):
    with pytest.raises(UsageError, match="cannot be called"):
        store.create(request_for_a_run, {}, "../x", 1)
    assert not store.root.exists()


def test_of_many_who_want_a_name_at_once_one_gets_it_and_no_trace_is_left_of_the_others(store, request_for_a_run):
    def create(_) -> object:
        try:
            return store.create(request_for_a_run, {}, "a", 1)
        except UsageError as error:
            return error

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(create, range(12)))
    winners = [result for result in results if not isinstance(result, UsageError)]
    assert len(winners) == 1
    assert visible(store.root) == {winners[0].id, "by-name"}


def test_a_run_that_a_crash_stored_from_its_link_is_found_by_its_status_and_keeps_its_name(
    store, request_for_a_run, monkeypatch
):
    def crash(*_) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RunNames, "claim", crash)
        store.create(request_for_a_run, {}, "a", 1)
    assert read_record(store.resolve("a")).name == "a"
    assert store.named("a") == store.resolve("a")
    with pytest.raises(UsageError, match="already"):
        store.create(request_for_a_run, {}, "a", 1)


@pytest.mark.parametrize("round_number", range(4))
def test_kill_9_while_runs_are_made_leaves_only_whole_runs(tmp_path, start_python, round_number, request_for_a_run):
    root = tmp_path / "runs"
    child = start_python(CREATE, root, round_number)
    child.stdin.write("\n")
    child.stdin.flush()
    wanted = 3 + round_number
    while not root.exists() or len(list(root.glob("0*"))) < wanted:
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    store = RunStore(root)
    for record in store.list():
        assert record.state is RunState.QUEUED
        assert store.resolve(record.name).id == record.id
        assert read_config(store.resolve(record.id))["n"] >= 0
    store.create(request_for_a_run, {}, "after", 1)
    assert not list(root.glob(".new-*"))


def test_what_dead_processes_left_is_swept_and_the_work_of_living_ones_stays(store, directory, request_for_a_run):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for kind in ("new", "trash"):
        (store.root / f".{kind}-{dead.pid}-x" / "deep").mkdir(parents=True)
        (store.root / f".{kind}-{os.getppid()}-x" / "deep").mkdir(parents=True)
    store.create(request_for_a_run, {}, "b", 1)
    left = {name for name in visible(store.root) if name.startswith(".")}
    assert left == {f".new-{os.getppid()}-x", f".trash-{os.getppid()}-x"}


def test_runs_are_listed_newest_first(store, request_for_a_run):
    for name in ("one", "two", "three"):
        store.create(request_for_a_run, {}, name, 1)
    assert [record.name for record in store.list()] == ["three", "two", "one"]


@pytest.mark.parametrize("damage", [b"", b"{", b'{"schema_version": 99}', None])
def test_a_damaged_run_is_reported_and_does_not_hide_the_others(store, directory, request_for_a_run, damage):
    store.create(request_for_a_run, {}, "b", 1)
    if damage is None:
        directory.status_file.unlink()
    else:
        directory.status_file.write_bytes(damage)
    whole, broken = store.list()
    assert whole.name == "b"
    assert (broken.id, broken.name, broken.state) == (directory.id, "a", RunState.LOST)
    assert "status.json" in broken.failure
    assert (broken.recipe == NEWER_VERSION) == (damage is not None and b"99" in damage)
    assert store.resolve("a") == directory
    store.remove("a")
    assert [record.name for record in store.list()] == ["b"]


def test_a_run_copied_by_hand_is_listed_under_its_own_id_and_its_name_is_then_ambiguous(store, directory):
    copy = store.root / ("0" + "1" * 25)
    shutil.copytree(directory.path, copy)
    assert {record.id for record in store.list()} == {directory.id, copy.name}
    assert store.resolve("a") == directory  # the link knows who came first
    (store.root / "by-name" / "a").unlink()
    with pytest.raises(NotFound, match="any of 2 runs"):
        store.resolve("a")


def test_an_empty_or_absent_store_has_no_runs(store):
    assert store.list() == []
    assert not store.root.exists()


def test_files_of_others_in_the_root_are_no_runs(store, directory):
    (store.root / "notes.txt").write_text("x")
    (store.root / "01J8Z3K4M5N6P7Q8R9S0T1V2W3").write_text("a file")
    assert [record.name for record in store.list()] == ["a"]


def test_a_removed_run_is_gone_with_its_name(store, directory, request_for_a_run):
    assert store.remove("a").id == directory.id
    assert visible(store.root) == {"by-name"}
    assert visible(store.root / "by-name") == set()
    store.create(request_for_a_run, {}, "a", 1)


def test_a_running_run_is_not_removed(store, directory):
    write_record(directory, running(read_record(directory)))
    with pytest.raises(UsageError, match=f"'a' is running .process {os.getpid()}.") as caught:
        store.remove("a")
    assert "runs stop a" in caught.value.hint
    assert store.resolve("a") == directory


def test_a_run_that_somebody_holds_is_not_removed_whatever_its_status_says(store, directory):
    with run_lock(directory), pytest.raises(UsageError, match="being trained by"):
        store.remove("a")
    assert store.resolve("a") == directory


def test_a_lost_run_can_be_removed(store, directory):
    record = running(read_record(directory))
    write_record(directory, replace(record, pid_started_at=record.pid_started_at - 1))
    store.remove("a")
    assert store.list() == []


def test_a_removal_that_is_cut_off_leaves_no_half_run(store, directory, monkeypatch):
    def crash(*_, **__) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(store_module.shutil, "rmtree", crash)
        store.remove("a")
    assert store.list() == []
    assert store.find("a") is None
    assert len(list(store.root.glob(".trash-*"))) == 1
    store._sweep()
    assert visible(store.root) == {"by-name"}


def test_a_run_outside_of_the_store_is_not_removed(store, directory, tmp_path):
    with pytest.raises(UsageError, match="is not in"):
        RunStore(tmp_path / "other").remove(str(directory.path))
    assert directory.path.exists()


def test_a_root_that_is_a_file_is_refused_with_its_path(tmp_path, request_for_a_run):
    (tmp_path / "runs").write_text("x")
    with pytest.raises(UsageError, match=r"runs cannot be written: File exists") as caught:
        RunStore(tmp_path / "runs").create(request_for_a_run, {}, "a", 1)
    assert "PALAESTRA_RUNS_DIR" in caught.value.hint


def test_a_root_that_may_not_be_written_is_refused_with_its_path(tmp_path, request_for_a_run):
    root = tmp_path / "runs"
    root.mkdir(mode=0o500)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        with pytest.raises(UsageError, match=r"runs cannot be written: Permission denied"):
            RunStore(root).create(request_for_a_run, {}, "a", 1)
    finally:
        if is_root:
            os.seteuid(0)
    assert visible(root) == set()


def test_a_full_disk_leaves_nothing_behind(store, directory, request_for_a_run, monkeypatch):
    def full(*_, **__) -> None:
        raise OSError(28, "No space left on device")

    before = visible(store.root)
    monkeypatch.setattr(store_module, "write_manifest", full)
    with pytest.raises(RunFailed, match="No space left on device"):
        store.create(request_for_a_run, {}, "b", 1)
    assert visible(store.root) == before


def test_other_users_cannot_look_into_the_store(store, directory):
    for path in (store.root, directory.path, directory.status_file, directory.journal_file):
        assert path.stat().st_mode & 0o077 == 0


ROOT = Path("/nowhere/runs")
IDS = ["01J8Z3K4M5N6P7Q8R9S0T1V2W3", "01J8Z3K4M5AAAAAAAAAAAAAAAA", "01H00000000000000000000000"]
NAMES = ["walker", "cart", "01J8"]  # the last one is also the beginning of two ids
RECORDS = [
    RunRecord(run_id, name, "native", "r", RunState.FINISHED, 0.0) for run_id, name in zip(IDS, NAMES, strict=True)
]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("latest", IDS[0]),
        (IDS[1], IDS[1]),
        (IDS[1].lower(), IDS[1]),
        ("cart", IDS[1]),
        ("01H", IDS[2]),
        ("01h", IDS[2]),
        ("01J8Z3K4M5N", IDS[0]),
        ("01J8", IDS[2]),
    ],
)
def test_what_is_typed_leads_to_the_run_that_is_meant(selector, expected):
    assert select(selector, RECORDS, ROOT).path == ROOT / expected


def test_an_ambiguous_start_lists_the_candidates():
    with pytest.raises(NotFound, match="any of 2 runs") as caught:
        select("01J8Z", RECORDS, ROOT)
    assert IDS[0] in caught.value.message
    assert "cart" in caught.value.message
    assert IDS[2] not in caught.value.message
    assert caught.value.exit_code == 3


def test_a_mistyped_name_is_replied_to_with_the_nearest():
    with pytest.raises(NotFound, match=r"No run named 'wlaker'.*Did you mean 'walker'"):
        select("wlaker", RECORDS, ROOT)


def test_nothing_near_lists_the_newest_and_an_empty_store_says_so():
    with pytest.raises(NotFound, match="Newest: walker, cart"):
        select("qqqqq", RECORDS, ROOT)
    with pytest.raises(NotFound, match="no runs"):
        select("x", [], ROOT)
    with pytest.raises(NotFound, match="palaestra train"):
        select("latest", [], ROOT)


def test_an_empty_word_means_nothing():
    with pytest.raises(NotFound):
        select("", RECORDS[:1], ROOT)


def test_a_path_to_a_run_directory_is_taken_also_through_its_link(store, directory, monkeypatch):
    assert select(str(directory.path), [], ROOT) == directory
    assert select(f"{directory.path}/", [], ROOT) == directory
    assert select(str(store.root / "by-name" / "a"), [], ROOT) == directory
    assert select(str(store.root / "a"), [], ROOT) == directory
    monkeypatch.chdir(directory.path)
    assert select(".", [], ROOT) == directory


@pytest.mark.parametrize(
    "selector", ["/etc", "./", "a/b", "/nowhere/01J8Z3K4M5N6P7Q8R9S0T1V2W3", "a\x00/b", "~nobody-here/x"]
)
def test_a_path_to_anything_else_is_not_found(selector):
    with pytest.raises(NotFound):
        select(selector, [], ROOT)
