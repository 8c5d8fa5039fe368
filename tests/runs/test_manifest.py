from __future__ import annotations

import json
from pathlib import PurePath

from palaestra.runs.manifest import read_manifest


def test_the_manifest_leads_back_to_who_asked_for_the_run(directory, request_for_a_run):
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
