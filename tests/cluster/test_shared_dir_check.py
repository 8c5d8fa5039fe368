import pytest

from palaestra.cluster.shared_dir_check import marker_file


def test_a_marker_is_there_for_the_block_and_nothing_after_it(tmp_path):
    folder = tmp_path / "new" / "runs"
    with marker_file(folder) as name:
        assert (folder / name).is_file()
    assert not (tmp_path / "new").exists()


def test_what_was_there_stays_also_when_the_block_fails(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(ZeroDivisionError), marker_file(tmp_path):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_in_which_runs_were_made_meanwhile_stays(tmp_path):
    folder = tmp_path / "new" / "runs"
    with marker_file(folder):
        (folder / "a-run").mkdir()
    assert [path.name for path in folder.iterdir()] == ["a-run"]


def test_two_markers_have_two_names(tmp_path):
    with marker_file(tmp_path) as first, marker_file(tmp_path) as second:
        assert first != second
