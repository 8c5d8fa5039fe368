"""Its parts in this process; questions to a real one are in test_mutant_copy.py."""

import importlib.util
import os
import weakref
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.reliability import mutation_worker
from tools.reliability.mutation_worker import Trier, answer, apart, functions_of, plant

KEYS = ("seconds", "lines", "is_far")
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
    plant(SOURCE.replace("< 10", "<= 10").replace("True", "False"), file, functions_of(file))
    assert (made(), module.small(10), thing.is_good) == (True, True, False)
    assert module.outer(10)() is True


def test_what_is_left_of_others_does_not_get_blocking(tmp_path):
    module, file = loaded(tmp_path)
    gone = module.Thing()
    left = weakref.proxy(gone)
    del gone
    with pytest.raises(ReferenceError):
        isinstance(left, int)
    plant(SOURCE.replace("True", "False"), file, functions_of(file))
    assert not module.Thing().is_good


def test_functions_of_other_files_stay_as_they_are(tmp_path):
    module, _ = loaded(tmp_path)
    other = str(tmp_path / "other.py")
    plant(SOURCE.replace("True", "False"), other, functions_of(other))
    assert module.Thing().is_good


def test_a_body_that_does_not_fit_is_reported_and_not_counted_as_observed(tmp_path):
    module, file = loaded(tmp_path)
    assert module.outer(1)()
    kept = module.outer(1)  # an inner function with x of the outer one
    trier = Trier(Path(file), [])
    without = SOURCE.replace("return x < 10", "return None", 1)
    assert trier._try({"source": without}, functions_of(file), []) == {"failed": "", "unfit": True}
    assert kept.__closure__


def test_the_first_failure_is_the_one_that_is_reported_and_ends_the_try(tmp_path):
    trier, asked = Trier(tmp_path, []), []

    def run(item, nextitem):
        asked.append((item.nodeid, nextitem and nextitem.nodeid))
        trier.pytest_runtest_logreport(SimpleNamespace(nodeid=item.nodeid, failed=item.nodeid in "bc"))

    assert trier._run([]) == ""  # nobody comes by the line
    assert trier._run(items("abc", run)) == "b"
    assert asked == [("a", "b"), ("b", "c")]


def items(names, run):
    hook = SimpleNamespace(pytest_runtest_protocol=run)
    return [SimpleNamespace(nodeid=name, config=SimpleNamespace(hook=hook)) for name in names]


def test_a_mutant_meets_the_tests_of_its_line_quickest_first_then_those_that_start_processes_and_no_other(
    tmp_path, monkeypatch
):
    _, file = loaded(tmp_path)
    seen = {
        "slow": (9.0, [4], False),
        "far": (5.0, [12], True),
        "quick": (1.0, [4, 12], False),
        "other": (0.5, [7], False),
    }
    watched = {
        name: {"failed": "", "seen": {"name": name, **dict(zip(KEYS, how, strict=True))}} for name, how in seen.items()
    }
    met, given = [], []
    trier = Trier(Path(file), [{"source": SOURCE.replace("x < 10", "x <= 10", 1), "line": 4}])

    def here(work, seconds):
        given.append(seconds)
        return work()

    monkeypatch.setattr(mutation_worker, "apart", here)
    monkeypatch.setattr(mutation_worker.gc, "freeze", lambda: None)
    monkeypatch.setattr(trier, "_watch", lambda item: watched[item.nodeid])
    found = items(seen, lambda item, nextitem: met.append((item.nodeid, Path(file).read_text() == SOURCE)))
    assert trier.pytest_runtestloop(SimpleNamespace(testsfailed=0, items=found))
    assert met == [("quick", False), ("slow", False), ("far", False)]
    assert trier.order == ["other", "quick", "far", "slow"]
    assert given[-1] == mutation_worker.LEAST_SECONDS + mutation_worker.TIMES_LONGER * 15.0
    assert (trier.answers, Path(file).read_text()) == ([{"failed": ""}], SOURCE)


def test_the_first_test_that_fails_without_a_mutant_is_reported_and_nothing_is_tried(tmp_path):
    _, file = loaded(tmp_path)
    trier = Trier(Path(file), [{"source": SOURCE, "line": 4}])

    def run(item, nextitem):
        trier.pytest_runtest_logreport(SimpleNamespace(nodeid=item.nodeid, failed=item.nodeid == "b"))

    assert trier.pytest_runtestloop(SimpleNamespace(testsfailed=0, items=items("abc", run)))
    assert (trier.clean["failed"], trier.answers) == ("b", [])


def test_lines_and_processes_of_each_test_are_watched_also_of_those_that_find_a_cache(tmp_path):
    module, file = loaded(tmp_path)
    asked = cache(lambda: module.outer(1)() is True)
    acts = {
        "first": asked,
        "second": asked,
        "far": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
        "neither": lambda: None,
    }
    found = Trier(Path(file), [])._watch_all(items(acts, lambda item, nextitem: acts[item.nodeid]()))
    assert sorted((seen.name, seen.lines, seen.is_far, item.nodeid) for seen, item in found) == [
        ("far", [], True, "far"),
        ("first", [3, 4, 5], False, "first"),
        ("neither", [], False, "neither"),
        ("second", [3, 4, 5], False, "second"),
    ]
    assert all(0 <= seen.seconds < 30 for seen, _ in found)


def test_what_stands_in_the_file_already_is_tried_in_the_order_that_was_given(tmp_path):
    trier, met = Trier(tmp_path, [], order=["c", "a"]), []
    found = items("abc", lambda item, nextitem: met.append(item.nodeid))
    assert trier.pytest_runtestloop(SimpleNamespace(testsfailed=0, items=found))
    assert (met, trier.clean) == (["c", "a", "b"], {"failed": ""})


def test_a_mutant_stands_in_the_file_only_while_it_is_tried(tmp_path, monkeypatch):
    path, seen = tmp_path / "module.py", []
    path.write_text("good\n")
    compiled = tmp_path / "__pycache__" / "module.cpython-311.pyc"
    compiled.parent.mkdir()

    def look(_work, seconds):
        seen.append((path.read_text(), compiled.exists(), seconds))
        compiled.write_text("of the mutant")
        return {"failed": ""}

    monkeypatch.setattr(mutation_worker, "apart", look)
    compiled.write_text("of the good one")
    assert answer({"file": str(path), "source": "bad\n", "seconds": 3.0}) == {"failed": ""}
    assert seen == [("bad\n", False, 3.0)]
    assert (path.read_text(), compiled.exists()) == ("good\n", False)


def test_a_child_that_replies_leaves_without_a_word_or_never_ends_is_reported_as_such():
    assert apart(lambda: {"failed": "x"}, 30.0) == {"failed": "x"}
    assert apart(lambda: {}["x"], 30.0) == {"failed": "", "error": "KeyError('x')"}
    assert apart(lambda: os._exit(3), 30.0) == {"failed": "its process ended without a word"}
    assert apart(lambda: os.read(os.pipe()[0], 1), 0.2) == {"failed": "no end within 0 s"}
