from palaestra.core.errors import DamagedFile, RunFailed, UsageError
from palaestra.daemon.errors import Conflict, DamagedIndex, QueueFull, StoreInUse, StoreRefused


def test_each_error_has_the_exit_code_of_its_base_class():
    assert {Conflict("x").exit_code, StoreInUse("x").exit_code} == {UsageError.exit_code}
    assert {StoreRefused("x").exit_code, QueueFull("x").exit_code} == {RunFailed.exit_code}
    assert isinstance(DamagedIndex("x"), DamagedFile)


def test_a_store_in_use_names_the_process():
    assert StoreInUse("x", "y", 7).pid == 7
