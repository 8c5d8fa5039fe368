"""Its parts in this process; questions to a real one are in test_mutant_copy.py."""

import importlib.util
import os
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest

from palaestra.testing import mutant_house
from palaestra.testing.mutant_house import Trier, answer, apart, plant

SOURCE = """
def outer(x):
    def inner():
        return x < 10
    return inner

small = lambda x: x < 10

class Thing:
    @property
    def is_good(self):
        return True
"""


def loaded(tmp_path):
    file = tmp_path / "thing.py"
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("thing", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, str(file)


def test_functions_methods_and_inner_ones_that_were_loaded_already_get_their_new_bodies(tmp_path):
    module, file = loaded(tmp_path)
    made, thing = module.outer(10), module.Thing()
    assert (made(), module.small(10), thing.is_good) == (False, False, True)
    plant(SOURCE.replace("< 10", "<= 10").replace("True", "False"), file)
    assert (made(), module.small(10), thing.is_good) == (True, True, False)
    assert module.outer(10)() is True


def test_what_is_left_of_others_does_not_get_in_the_way(tmp_path):
    module, file = loaded(tmp_path)
    gone = module.Thing()
    left = weakref.proxy(gone)
    del gone
    with pytest.raises(ReferenceError):
        isinstance(left, int)
    plant(SOURCE.replace("True", "False"), file)
    assert not module.Thing().is_good


def test_functions_of_other_files_stay_as_they_are(tmp_path):
    module, _ = loaded(tmp_path)
    plant(SOURCE.replace("True", "False"), str(tmp_path / "other.py"))
    assert module.Thing().is_good


def test_a_body_that_does_not_fit_is_told_and_not_counted_as_seen(tmp_path):
    module, file = loaded(tmp_path)
    assert module.outer(1)()
    kept = module.outer(1)  # an inner function with x of the outer one
    trier = Trier(Path(file), [])
    without = SOURCE.replace("return x < 10", "return None", 1)
    assert trier._try({"source": without}, [], []) == {"failed": "", "unfit": True}
    assert kept.__closure__


def test_the_first_failure_is_the_one_that_is_told_and_ends_the_try(tmp_path):
    trier, asked = Trier(tmp_path, []), []

    def run(item, nextitem):
        asked.append((item.name, nextitem and nextitem.name))
        trier.pytest_runtest_logreport(SimpleNamespace(nodeid=item.name, failed=item.name in "bc"))

    hook = SimpleNamespace(pytest_runtest_protocol=run)
    trier._run([])  # nobody comes by the line
    trier._run([SimpleNamespace(name=name, config=SimpleNamespace(hook=hook)) for name in "abc"])
    assert (trier._failed, asked) == ("b", [("a", "b"), ("b", "c")])


def test_a_mutant_stands_in_the_file_only_while_it_is_tried(tmp_path, monkeypatch):
    path, seen = tmp_path / "module.py", []
    path.write_text("good\n")
    compiled = tmp_path / "__pycache__" / "module.cpython-311.pyc"
    compiled.parent.mkdir()

    def look(_work, seconds):
        seen.append((path.read_text(), compiled.exists(), seconds))
        compiled.write_text("of the mutant")
        return {"failed": ""}

    monkeypatch.setattr(mutant_house, "apart", look)
    compiled.write_text("of the good one")
    assert answer({"file": str(path), "source": "bad\n", "seconds": 3.0}) == {"failed": ""}
    assert seen == [("bad\n", False, 3.0)]
    assert (path.read_text(), compiled.exists()) == ("good\n", False)


def test_a_child_that_answers_leaves_without_a_word_or_never_ends_is_told_as_such():
    assert apart(lambda: {"failed": "x"}, 30.0) == {"failed": "x"}
    assert apart(lambda: {}["x"], 30.0) == {"failed": "", "error": "KeyError('x')"}
    assert apart(lambda: os._exit(3), 30.0) == {"failed": "its process ended without a word"}
    assert apart(lambda: os.read(os.pipe()[0], 1), 0.2) == {"failed": "no end within 0 s"}
