from __future__ import annotations

import random
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c as tensorboard_checksum

from palaestra.loggers.event_file import WAITING_EVENTS, EventFile, framed, framed_alike, masked_crc32c
from palaestra.loggers.event_messages import form_of, scalars_event, step_bytes_of
from palaestra.loggers.event_points import AlikePoints


@pytest.mark.parametrize("size", [0, 1, 8, 16, 17, 71, 335, 1024, 1025, 3000])
def test_checksums_equal_those_of_tensorboard_at_every_length(size):
    generator = random.Random(size)
    records = [generator.randbytes(size) for _ in range(3)]
    assert masked_crc32c(records) == [tensorboard_checksum(record) for record in records]


def test_records_are_framed_as_tensorboard_reads_them(tmp_path):
    path = tmp_path / "deep" / "events.out.tfevents.1"
    records = [b"x" * size for size in (40, 40, 41, 2000, 40)]
    file = EventFile(path)
    file.append(*records[:3])
    file.append(*records[3:])
    file.close()
    assert list(RawEventFileLoader(str(path)).Load()) == records


def test_a_file_that_is_there_is_never_overwritten(tmp_path):
    path = tmp_path / "events"
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        EventFile(path)
    assert path.read_bytes() == b"precious"


def test_a_full_disk_is_an_error_here_and_not_in_a_thread(tmp_path, monkeypatch):
    file = EventFile(tmp_path / "events")
    file.close()
    with Path("/dev/full").open("wb", buffering=0) as full_disk:
        monkeypatch.setattr(file, "_file", full_disk)
        file.append(b"x" * 40)
        with pytest.raises(OSError, match="No space left"):
            file.flush()
        file.append(b"x" * 40)
        with pytest.raises(OSError, match="No space left"):
            file.close()
        assert full_disk.closed


def test_records_wait_for_each_other_but_not_for_ever(tmp_path):
    file = EventFile(tmp_path / "events")
    file.append(*[b"x" * 2000] * (WAITING_EVENTS - 1))
    assert (tmp_path / "events").stat().st_size == 0
    file.append(b"y" * 2000)
    assert (tmp_path / "events").stat().st_size > 2000 * WAITING_EVENTS - 10_000  # but for Python's own buffer
    file.close()


@pytest.mark.parametrize("step", [0, 1, 127, 70_000, 2**40])
def test_many_that_are_alike_are_framed_as_each_by_itself(step):
    values = [0.0, 1.5, -3e38, 1e300, 22.0]
    points = AlikePoints(("a/b", "c"), form_of(("a/b", "c"), step_bytes_of(step)))
    for number, value in enumerate(values):
        points.moments.append(1000.25 + number)
        points.steps.append(step)
        points.rows.append((value, 2 * value))
    assert framed_alike(points) == b"".join(framed(list(points.one_by_one())))


def test_those_that_wait_come_before_many_at_once(tmp_path):
    path = tmp_path / "events"
    file = EventFile(path)
    file.append(b"first" * 9)
    points = AlikePoints(("c",), form_of(("c",), 1), [1.0, 1.0], [7, 8], [(1.0,), (2.0,)])
    file.append_alike(points)
    file.append(b"last" * 9)
    file.close()
    alike = [scalars_event(1.0, step, {"c": value}) for step, value in ((7, 1.0), (8, 2.0))]
    assert list(RawEventFileLoader(str(path)).Load()) == [b"first" * 9, *alike, b"last" * 9]
