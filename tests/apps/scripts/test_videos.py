import av
import numpy as np
import pytest

from palaestra.apps.scripts.launcher.videos import FrameRecording
from palaestra.apps.scripts.videos import keep_video, make_video, read_frames
from palaestra.core.errors import DamagedFile


def test_a_video_has_as_many_images_as_were_put_aside_which_are_gone_then(tmp_path):
    film = FrameRecording(tmp_path / "a.pictures")
    for shade in range(0, 250, 25):
        film.add(np.full((16, 24, 3), shade, dtype=np.uint8))
    film.close()
    made = tmp_path / "videos" / "a.mp4"
    make_video(film.path, made, 10.0)
    with av.open(str(made)) as container:
        shades = [int(frame.to_ndarray(format="rgb24").mean()) for frame in container.decode(video=0)]
    assert shades == pytest.approx(range(0, 250, 25), abs=6)
    assert not film.path.exists()


@pytest.mark.parametrize("data", [b"\x01", b"\x04\x00\x00\x00" * 3 + b"nothing"])
def test_a_file_without_frames_is_refused(tmp_path, data):
    path = tmp_path / "b.pictures"
    path.write_bytes(data)
    with pytest.raises(DamagedFile, match="b.pictures holds no pictures"):
        list(read_frames(path))


@pytest.mark.parametrize("is_there", [False, True])
def test_a_video_of_the_scripts_own_stays_there_and_is_found_among_those_of_the_run(tmp_path, is_there):
    folder = tmp_path / "videos" / "CartPole-v1__ppo"
    folder.mkdir(parents=True)
    film = folder / "rl-video-episode-8.mp4"
    pictures = FrameRecording(folder / "rl-video-episode-8.mp4.pictures")
    pictures.add(np.zeros((16, 24, 3), dtype=np.uint8))
    pictures.close()
    if is_there:
        make_video(pictures.path, film, 10.0)
    kept = keep_video("" if is_there else str(pictures.path), film, 0.0, tmp_path / "videos")
    assert kept == tmp_path / "videos" / "CartPole-v1__ppo-rl-video-episode-8.mp4"
    assert kept.read_bytes() == film.read_bytes()
    assert [path.name for path in folder.iterdir()] == [film.name]
