import importlib
import sys
import types

import numpy as np
import pytest

from palaestra.apps.scripts.films import pictures_in
from palaestra.apps.scripts.launcher import moviepy_stand_in


@pytest.fixture
def clip(monkeypatch):
    """What Gymnasium imports, and what was said about films."""
    for name in moviepy_stand_in.MODULES:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    said = []
    moviepy_stand_in.install(lambda *message: said.append(message))
    return importlib.import_module("moviepy.video.io.ImageSequenceClip").ImageSequenceClip, said


def test_pictures_are_put_aside_in_their_order_and_told(clip, tmp_path):
    make, said = clip
    pictures = [np.full((4, 6, 3), shade, dtype=np.uint8) for shade in (3, 9, 3)]
    made = make(pictures, fps=50)
    made.write_videofile(str(tmp_path / "a.mp4"), logger=None)
    made.close()
    aside = tmp_path / "a.mp4.pictures"
    assert said == [("film", str(aside), str(tmp_path / "a.mp4"), 50.0)]
    assert [picture[0, 0, 0] for picture in pictures_in(aside)] == [3, 9, 3]


def test_what_is_no_picture_is_passed_over(clip, tmp_path):
    make, said = clip
    make([np.zeros((4, 6)), np.zeros((4, 6, 3), dtype=np.uint8)]).write_videofile(tmp_path / "b.mp4")
    assert len(list(pictures_in(tmp_path / "b.mp4.pictures"))) == 1
    assert said[0][3] == 0.0
