import os
import tempfile

import numpy as np
import pytest

from palaestra.evaluation.spool import Spool


def test_pictures_come_back_bit_for_bit_in_order():
    generator = np.random.default_rng(0)
    pictures = [generator.integers(0, 256, (9, 13, 3), np.uint8) for _ in range(20)]
    with Spool() as spool:
        for picture in pictures:
            spool.add(picture)
        assert all((one == other).all() for one, other in zip(spool.pictures(), pictures, strict=True))
        assert spool.count == 20


def test_a_picture_that_is_drawn_over_later_is_kept_as_it_was():
    picture = np.zeros((2, 2, 3), np.uint8)
    with Spool() as spool:
        for shade in (1, 2, 3):
            picture[:] = shade
            spool.add(picture)
        assert [int(one[0, 0, 0]) for one in spool.pictures()] == [1, 2, 3]


def test_nothing_comes_back_as_nothing():
    with Spool() as spool:
        assert list(spool.pictures()) == []


def test_no_file_is_left_to_be_seen_and_still_scenes_take_next_to_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spool = Spool()
    for _ in range(100):
        spool.add(np.full((200, 300, 3), 77, np.uint8))
    assert list(tmp_path.iterdir()) == []
    spool._file.flush()
    assert os.fstat(spool._file.fileno()).st_size < 100 * 200 * 300 * 3 / 100
    spool.close()
    with pytest.raises(ValueError):
        spool.add(np.zeros((200, 300, 3), np.uint8))
