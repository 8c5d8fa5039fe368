import pytest

from palaestra.analysis.subjects import find_subjects
from palaestra.core.errors import DamagedFile, NotFound, UsageError


def test_without_a_selector_the_best_is_meant_else_the_last_judged_else_the_last(make_run):
    run = make_run("first")
    assert find_subjects(["first"])[0].epoch is None
    run.save(1)
    run.save(2)
    run.save(3)
    assert find_subjects(["first"])[0].epoch == 3
    run.judge(2, [1.0])
    assert find_subjects(["first"])[0].epoch == 2
    run.save(1, score=5.0)
    assert find_subjects(["first"])[0].epoch == 1


@pytest.mark.parametrize(("selector", "epoch"), [("best", 2), ("latest", 3), ("1", 1)])
def test_a_selector_says_which(make_run, selector, epoch):
    run = make_run("first")
    for number, score in ((1, 0.0), (2, 9.0), (3, None)):
        run.save(number, score=score)
    (found,) = find_subjects([f"first:{selector}"])
    assert (found.epoch, found.selector, found.label) == (epoch, selector, f"first:{epoch}")


def test_a_checkpoint_that_is_gone_is_still_known_by_its_judgements(make_run):
    run = make_run("first")
    run.save(5)
    run.judge(2, [1.0])
    (found,) = find_subjects(["first:2"])
    assert (found.epoch, found.checkpoint) == (2, None)


def test_the_same_checkpoint_by_two_words_is_one_subject(make_run):
    run = make_run("first")
    run.save(2, score=1.0)
    assert len(find_subjects(["first", "first:best", "first:2", "latest:2"])) == 1


def test_a_path_means_its_file_and_its_run(make_run):
    run = make_run("first")
    run.save(1)
    run.save(2)
    (found,) = find_subjects([str(run.directory.checkpoints / "model_0001.yaml")])
    assert (found.run_name, found.epoch, found.directory) == ("first", 1, run.directory)


def test_a_checkpoint_without_its_run_is_a_subject_too(make_run, tmp_path):
    run = make_run("first")
    run.save(4)
    away = tmp_path / "away"
    away.mkdir()
    for path in run.directory.checkpoints.glob("model_*"):
        (away / path.name).write_bytes(path.read_bytes())
    (found,) = find_subjects([str(away / "model_0004.yaml")])
    assert (found.directory, found.epoch, found.run_name) == (None, 4, "first")


def test_two_runs_of_one_name_are_told_apart(make_run, tmp_path):
    make_run("first").save(1)
    elsewhere = make_run("first", tmp_path / "elsewhere")
    elsewhere.save(1)
    one, other = find_subjects(["first", str(tmp_path / "elsewhere" / "first")])
    assert one.label != other.label
    assert one.label.startswith("first:1")
    assert other.label == f"first:1 {elsewhere.directory.id[-6:]}"


@pytest.mark.parametrize(
    ("target", "error", "said"),
    [
        ("frist", NotFound, "Did you mean 'first'"),
        ("first:9", NotFound, "Epochs there: 1"),
        ("first:best", NotFound, "has a score yet"),
        ("first:bset", UsageError, "Did you mean 'best'"),
        ("nowhere/model_0001.yaml", NotFound, "no file"),
        ("empty:latest", NotFound, "no checkpoint"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(make_run, target, error, said):
    make_run("first").save(1)
    make_run("empty")
    with pytest.raises(error) as caught:
        find_subjects([target])
    assert said in str(caught.value)


def test_a_damaged_checkpoint_is_named(make_run):
    run = make_run("first")
    run.save(1)
    run.save(2)
    (run.directory.checkpoints / "model_0002.yaml").write_text("damaged")
    (found,) = find_subjects(["first"])
    assert found.epoch == 1
    assert "model_0002" in found.notes[0]
    with pytest.raises(DamagedFile, match="model_0002"):
        find_subjects(["first:2"])


def test_a_config_that_cannot_be_read_is_said(make_run):
    run = make_run("first", total_steps=5)
    assert find_subjects(["first"])[0].config == {"total_steps": 5}
    run.directory.config_file.write_text("{")
    (found,) = find_subjects(["first"])
    assert found.config is None
    assert "group of its own" in found.notes[0]
