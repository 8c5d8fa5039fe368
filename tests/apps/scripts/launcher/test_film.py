import numpy as np

from palaestra.apps.scripts.films import pictures_in
from palaestra.apps.scripts.launcher.film import Film, as_picture


def test_pictures_come_back_as_they_were_also_when_their_size_changes(tmp_path):
    dice = np.random.default_rng(1)
    sizes = [(4, 6), (4, 6), (5, 2), (4, 6)]
    pictures = [dice.integers(0, 255, (*size, 3), dtype=np.uint8) for size in sizes]
    film = Film(tmp_path / "a.pictures")
    for picture in pictures:
        film.add(picture)
    film.close()
    found = list(pictures_in(film.path))
    assert len(found) == len(pictures)
    assert all(np.array_equal(one, other) for one, other in zip(found, pictures, strict=True))


def test_only_what_is_a_picture_is_taken_for_one():
    picture = np.zeros((2, 2, 3), dtype=np.uint8)
    assert as_picture([picture, picture + 1]).max() == 1
    assert as_picture(picture.astype(float)).dtype == np.uint8
    assert [as_picture(one) for one in (None, [], "ascii", np.zeros((2, 2)))] == [None] * 4
