import pytest

from palaestra.cluster.witness import witness


def test_a_witness_is_there_for_the_block_and_nothing_after_it(tmp_path):
    folder = tmp_path / "new" / "runs"
    with witness(folder) as name:
        assert (folder / name).is_file()
    assert not (tmp_path / "new").exists()


def test_what_was_there_stays_also_when_the_block_fails(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(ZeroDivisionError), witness(tmp_path):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_two_witnesses_have_two_names(tmp_path):
    with witness(tmp_path) as first, witness(tmp_path) as second:
        assert first != second
