import pytest

from palaestra.core.errors import UsageError
from palaestra.runs.annotations import Annotations, annotations_file, check_tags, read_annotations, write_annotations
from palaestra.runs.directory import RunDirectory


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path / "01ARZ3NDEKTSV4RRFFQ69G5FAV").make()


def test_what_was_added_is_found_again(directory):
    written = Annotations(("a", "b"), "a note\nin two lines", "01ARZ3NDEKTSV4RRFFQ69G5FAW")
    write_annotations(directory, written)
    assert read_annotations(directory) == written


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"schema": 1, "tags": 5}'])
def test_without_a_readable_file_there_is_nothing(directory, content):
    if content is not None:
        annotations_file(directory).write_text(content)
    assert read_annotations(directory) == Annotations()


def test_tags_are_sorted_and_each_there_once():
    assert check_tags(["b", "a", "b"]) == ("a", "b")
    assert check_tags([]) == ()


@pytest.mark.parametrize("tag", ["", " ", " a", "a\n", "a\x1b", "a" * 65, "\u202e"])
def test_what_cannot_be_shown_is_no_tag(tag):
    with pytest.raises(UsageError, match="cannot be a tag"):
        check_tags([tag])


def test_there_can_be_too_many():
    with pytest.raises(UsageError, match="at most"):
        check_tags([str(number) for number in range(33)])
