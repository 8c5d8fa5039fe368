"""Choosing, judging and counting mutants; trying them is seen in test_mutant_copy.py."""

import json
import re
import threading
from pathlib import Path

import pytest

from palaestra.core.errors import NotFound, RunFailed
from tools.reliability import mutation_testing
from tools.reliability.mutation_testing import (
    ACCEPTED_FILE,
    TARGETS,
    AcceptedMutant,
    Result,
    choose,
    counts,
    read_accepted_mutants,
    stale,
)
from tools.reliability.mutations import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
LINE = Mutant(3, "if a < b:", "a < b", "(a <= b)", "if (a <= b):", is_inner=False)


def result(target="runs/lock", killed_by="", reason=""):
    return Result(target, LINE, killed_by, reason)


class Copy:
    """Answers as told: `living` are the changes that no test sees, `unfit` those that must be there from the start."""

    def __init__(self, folder, living=(), unfit=(), failed=""):
        self.folder, self.log = folder, folder / "log"
        self.log.write_text("what pytest said last")
        self.living, self.unfit, self.failed = living, unfit, failed
        self.asked = []  # how many mutants at once; 0: one that is there when everything is loaded

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, file, tests, *, mutants=(), source=None, order=(), seconds=1.0):
        assert seconds > 0
        assert tests == ["tests/runs/test_lock.py"]
        self.asked.append(len(mutants))
        if source is not None:
            assert order == ["quickest", "slowest"]
            (own,) = [mutant for mutant in mutants_of((self.folder / file).read_text()) if mutant.source == source]
            return self.answer(own)
        answers = [
            {"failed": "", "unfit": True} if each.change in self.unfit else self.answer(each) for each in mutants
        ]
        return {"failed": self.failed, "answers": answers, "order": ["quickest", "slowest"]}

    def answer(self, mutant):
        return {"failed": "" if mutant.change in self.living else "seen"}


@pytest.fixture
def copy_of(tmp_path):
    def make(source, **how):
        path = tmp_path / "src/palaestra/runs/lock.py"
        path.parent.mkdir(parents=True)
        path.write_text(source)
        return Copy(tmp_path, **how)

    return make


def test_every_target_and_every_test_of_it_is_there():
    for target in TARGETS:
        assert (ROOT / mutation_testing.source_of(target)).is_file(), target
        assert [test for test in mutation_testing.tests_of(target) if not (ROOT / test).is_file()] == []


def test_targets_are_chosen_by_name_and_nothing_means_all():
    assert choose(["web/security/tokens"]) == ["web/security/tokens"]
    assert choose([]) == list(TARGETS)
    with pytest.raises(NotFound, match=r"'web/security/token'\. Did you mean 'web/security/tokens'"):
        choose(["web/security/token"])


def test_every_evaluation_of_the_house_is_about_a_mutant_that_can_still_be_made():
    accepted = read_accepted_mutants(ROOT / ACCEPTED_FILE)
    assert stale(accepted, ROOT) == []
    assert all(len(one.why.split()) >= 3 for one in accepted), "a reason, not a word"


def test_an_evaluation_about_a_line_that_is_gone_is_stale(tmp_path):
    (tmp_path / "src/palaestra/runs").mkdir(parents=True)
    (tmp_path / "src/palaestra/runs/lock.py").write_text("x = a < b\n")
    known = AcceptedMutant("runs/lock", "x = a < b", "a < b -> (a <= b)", "why")
    gone = AcceptedMutant("runs/lock", "x = a > b", "a > b -> (a >= b)", "why")
    nowhere = AcceptedMutant("runs/never", "x = a < b", "a < b -> (a <= b)", "why")
    assert stale([known, gone, nowhere], tmp_path) == [gone, nowhere]


def test_mutants_within_functions_are_tried_together_and_others_one_by_one(copy_of):
    source = "x = a < b\n\n\ndef f():\n    y = c == d\n    return y > z\n"
    copy = copy_of(source, living=["c == d -> (c != d)", "a < b -> (a <= b)"], unfit=["return y > z -> return None"])
    tried = mutation_testing.try_target(copy, "runs/lock", [])
    assert [(each.mutant.line, each.killed_by) for each in tried] == [(1, ""), (5, ""), (6, "seen"), (6, "seen")]
    assert copy.asked == [3, 0, 0], "those within, the one outside, and the one that did not fit"


def test_a_survivor_that_was_evaluated_is_not_open_and_another_is(copy_of):
    change = "a < b -> (a <= b)"
    copy = copy_of("x = a < b\ny = a < b\n", living=[change])
    accepted = [AcceptedMutant("runs/lock", "x = a < b", change, "they are never equal")]
    assert [each.is_open for each in mutation_testing.try_target(copy, "runs/lock", accepted)] == [False, True]


def test_tests_that_fail_without_a_mutant_say_nothing_about_mutants(copy_of):
    with pytest.raises(RunFailed, match="Without any mutant, test_x fails.*what pytest said last"):
        mutation_testing.try_target(copy_of("x = a < b\n", failed="test_x"), "runs/lock", [])


def test_a_bench_that_fails_itself_counts_nothing_as_observed(copy_of):
    copy = copy_of("def f():\n    return x\n")
    copy.answer = lambda _: {"failed": "", "error": "KeyError('x')"}
    with pytest.raises(RunFailed, match="The bench itself failed: KeyError"):
        mutation_testing.try_target(copy, "runs/lock", [])


def test_the_share_is_of_the_mutants_that_make_a_difference():
    results = [result(killed_by="t"), result(killed_by="t"), result(killed_by="t"), result(), result(reason="none")]
    assert counts(results) == {"mutants": 5, "killed": 3, "harmless": 1, "share": 0.75}
    assert counts([result(reason="none")])["share"] == 1.0


def test_the_table_has_a_row_a_file_and_one_for_all():
    text = mutation_testing.table([result(killed_by="t"), result("web/security/origin")])
    rows = [line.split() for line in text.splitlines()[1:]]
    assert rows == [
        ["runs/lock", "1", "1", "0", "100.0%"],
        ["web/security/origin", "1", "0", "0", "0.0%"],
        ["all", "2", "1", "0", "50.0%"],
    ]


@pytest.mark.parametrize(("living", "code"), [([], 0), (["a < b -> (a <= b)"], 1)])
def test_the_bench_reports_survivors_writes_what_was_observed_and_leaves_with_1_below_its_share(
    copy_of, tmp_path, monkeypatch, capsys, living, code
):
    copy = copy_of("x = a < b\n", living=living)
    monkeypatch.setattr(mutation_testing, "ProjectCopy", lambda _: copy)
    assert mutation_testing.main(["runs/lock", "--json", str(tmp_path / "seen.json")], tmp_path) == code
    printed = capsys.readouterr()
    assert bool(re.search(r"runs/lock:1: lives: a < b", printed.err)) == bool(living)
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["summary"]["runs/lock"]["share"] == 1.0 - code
    assert seen["mutants"][0]["change"] == "a < b -> (a <= b)"


def test_files_side_by_side_are_tried_in_copies_of_their_own(tmp_path, monkeypatch, capsys):
    copies, together = [], threading.Barrier(2, timeout=10)

    def open_copy(_):
        copies.append(Copy(tmp_path))
        return copies[-1]

    def tried(copy, target, evaluations):
        together.wait()  # for ever, if one came after the other
        return [Result(target, LINE, f"copy {copies.index(copy)}")]

    monkeypatch.setattr(mutation_testing, "ProjectCopy", open_copy)
    monkeypatch.setattr(mutation_testing, "try_target", tried)
    arguments = ["runs/lock", "web/security/origin", "--at-once", "2", "--json", str(tmp_path / "seen.json")]
    assert mutation_testing.main(arguments, tmp_path) == 0
    seen = json.loads((tmp_path / "seen.json").read_text())["mutants"]
    assert {each["target"] for each in seen} == {"runs/lock", "web/security/origin"}
    assert {each["killed_by"] for each in seen} == {"copy 0", "copy 1"}


def test_an_unknown_target_leaves_with_its_exit_code(capsys, tmp_path):
    assert mutation_testing.main(["no/such"], tmp_path) == NotFound.exit_code
    assert "No mutants are made of 'no/such'" in capsys.readouterr().err
