from palaestra.checkpoints.errors import SaveFailed
from palaestra.core.errors import DamagedFile, PalaestraError


def test_a_failed_save_is_told_apart_from_a_damaged_file():
    assert issubclass(SaveFailed, PalaestraError)
    assert not issubclass(SaveFailed, DamagedFile)
    assert SaveFailed("full").exit_code == 1
