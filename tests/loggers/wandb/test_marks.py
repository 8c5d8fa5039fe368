from __future__ import annotations

import pytest

from palaestra.loggers.wandb.marks import Marks, MarksFile


def test_a_new_file_has_sent_nothing(tmp_path):
    file = MarksFile(tmp_path / "marks")
    assert file.read() == Marks() == Marks(-1, -1, -1, -1, 0, -1)
    file.close()


def test_the_last_marks_are_found_by_the_next_session(tmp_path):
    file = MarksFile(tmp_path / "marks")
    for step in (5, 10**12, 7):
        file.write(Marks(step, step + 1, step + 2, -1, step + 3, step + 4))
    file.close()
    again = MarksFile(tmp_path / "marks")
    assert again.read() == Marks(7, 8, 9, -1, 10, 11)
    again.close()


@pytest.mark.parametrize("damage", [b"", b"\x00\xff", b"1 2 3", b"1 2 x 4 5", b"9" * 5000])
def test_a_damaged_file_counts_as_new(tmp_path, damage):
    (tmp_path / "marks").write_bytes(damage)
    file = MarksFile(tmp_path / "marks")
    assert file.read() == Marks()
    file.close()


def test_marks_from_before_there_were_evaluations_still_hold(tmp_path):
    (tmp_path / "marks").write_text("7 8 9 -1 10\n")
    file = MarksFile(tmp_path / "marks")
    assert file.read() == Marks(7, 8, 9, -1, 10, evaluation_step=-1)
    file.close()
