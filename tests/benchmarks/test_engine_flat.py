import os
from pathlib import Path

from engine_flat import (
    FIRST,
    Look,
    Stretch,
    Tenth,
    look_at,
    marks_up_to,
    stretches_of,
    table,
    tenths_of,
    tenths_table,
    told_step,
)


def test_marks_are_about_equally_far_apart_on_a_logarithmic_scale():
    assert marks_up_to(10_000_000) == [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000]
    assert marks_up_to(50_000) == [50_000]


def test_cost_is_of_the_segment_alone_and_memory_at_its_end():
    looks = [Look(90, 5.0, 10.0, 9.0), Look(110, 6.0, 11.0, 9.0), Look(200, 7.0, 12.0, 9.0), Look(310, 10.0, 40.0, 9.0)]
    assert stretches_of(looks, [100, 300]) == [Stretch(110, 310, 1e6 * 4.0 / 200, 40.0)]
    assert "| 110 | 310 | 20000.00 | 40 |" in table(stretches_of(looks, [100, 300]))


def test_a_segment_that_nobody_saw_the_end_of_is_left_out():
    assert stretches_of([Look(500, 1.0, 1.0, 1.0)], [100, 300]) == []


def test_memory_is_reported_by_tenths_of_what_came_after_the_start():
    looks = [Look(FIRST // 2, 0.0, 999.0, 999.0)]
    looks += [Look(FIRST + 10 * number, 2e-5 * number, 60.0 + number, 30.0) for number in range(30)]
    tenths = tenths_of(looks)
    assert len(tenths) == 10
    assert tenths[0] == Tenth(FIRST, FIRST + 20, 2.0, 61.0, 30.0)
    assert tenths[9].megabytes == 88.0
    assert "| 10 | 100,270 | 100,290 | 2.00 | 88.0 | 30.0 |" in tenths_table(tenths)


def test_a_run_of_a_few_looks_has_no_tenths():
    assert tenths_of([Look(FIRST + number, 0.0, 1.0, 1.0) for number in range(19)]) == []


def test_a_process_is_inspected_from_outside():
    look = look_at(os.getpid(), 7)
    assert look.step == 7
    assert 0 < look.cpu_seconds < 1e6
    assert 1 < look.own_megabytes < look.megabytes < 1e5
    assert look_at(2**22 + 1, 7) is None


def test_before_there_is_a_run_no_step_was_taken(tmp_path: Path):
    assert told_step(tmp_path) == 0
