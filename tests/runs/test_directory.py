from __future__ import annotations

from pathlib import Path

from palaestra.runs.directory import RunDirectory, has_only_logs

CONTRACT = [
    "request.yaml",
    "config.yaml",
    "environment.json",
    "journal.jsonl",
    "metrics.db",
    "logs",
    "checkpoints",
    "evaluations",
    "eval_summary.json",
    "tensorboard",
    "tensorboard_eval",
    "videos",
    "replays",
    "artifacts",
    "manifest.json",
    "status.json",
]


def test_every_entry_of_the_contract_has_its_place_directly_in_the_directory():
    directory = RunDirectory(Path("/x/01J8Z3K4M5N6P7Q8R9S0T1V2W3"))
    values = [getattr(directory, name) for name, kind in vars(RunDirectory).items() if isinstance(kind, property)]
    paths = [value for value in values if isinstance(value, Path)]
    assert {path.parent for path in paths} == {directory.path}
    assert set(CONTRACT) <= {path.name for path in paths}
    assert len({path.name for path in paths}) == len(paths)


def test_the_page_for_people_shows_every_entry():
    page = (Path(__file__).parents[2] / "docs" / "run-directory.md").read_text()
    assert [name for name in CONTRACT if name not in page] == []


def test_the_id_is_the_directory_s_name():
    assert RunDirectory(Path("/x/01J8Z3K4M5N6P7Q8R9S0T1V2W3")).id == "01J8Z3K4M5N6P7Q8R9S0T1V2W3"


def test_each_rank_has_its_own_log():
    directory = RunDirectory(Path("/x/y"))
    assert directory.log_file(0) != directory.log_file(1)
    assert directory.log_file(1).parent == directory.logs


def test_make_gives_the_sub_directories_and_keeps_third_parties_out(tmp_path):
    directory = RunDirectory(tmp_path / "run").make()
    made = {name for name in CONTRACT if "." not in name}
    assert {path.name for path in directory.path.iterdir()} == made
    assert directory.path.stat().st_mode & 0o077 == 0


def test_a_folder_of_a_ranks_logs_is_no_run(tmp_path):
    (tmp_path / "logs").mkdir()
    assert has_only_logs(str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    assert not has_only_logs(str(tmp_path))
    (tmp_path / "checkpoints").rmdir()
    (tmp_path / "status.json").touch()
    assert not has_only_logs(str(tmp_path))
