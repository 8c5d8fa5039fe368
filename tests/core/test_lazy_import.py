import sys

import pytest

from palaestra.core.lazy_import import lazy_import


@pytest.fixture
def lazy(tmp_path, monkeypatch):
    """A module that nobody has imported yet."""
    (tmp_path / "lazy_for_a_test.py").write_text("COUNT = 3\n\n\ndef double(number):\n    return 2 * number\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "lazy_for_a_test"
    sys.modules.pop("lazy_for_a_test", None)


def test_a_module_is_imported_when_something_of_it_is_first_used(lazy):
    module = lazy_import(lazy)
    assert lazy not in sys.modules
    assert module.double(module.COUNT) == 6
    assert lazy in sys.modules


def test_whoever_replaces_a_name_in_the_module_replaces_it_here(lazy, monkeypatch):
    module = lazy_import(lazy)
    assert module.COUNT == 3
    monkeypatch.setattr(sys.modules[lazy], "COUNT", 4)
    assert module.COUNT == 4


def test_what_is_not_there_is_missed_as_in_any_module(lazy):
    with pytest.raises(AttributeError, match="lazy_for_a_test.*absent"):
        _ = lazy_import(lazy).absent
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = lazy_import("no_such_module").anything
