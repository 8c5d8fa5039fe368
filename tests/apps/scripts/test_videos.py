import av
import numpy as np
import pytest

from palaestra.apps.scripts.launcher.videos import FrameRecording
from palaestra.apps.scripts.videos import link_video, make_video, read_frames
from palaestra.core.errors import DamagedFile


def test_a_video_has_as_many_images_as_were_put_aside_which_are_gone_then(tmp_path):
    video = FrameRecording(tmp_path / "a.frames")
    for shade in range(0, 250, 25):
        video.add(np.full((16, 24, 3), shade, dtype=np.uint8))
    video.close()
    made = tmp_path / "videos" / "a.mp4"
    make_video(video.path, made, 10.0)
    with av.open(str(made)) as container:
        shades = [int(frame.to_ndarray(format="rgb24").mean()) for frame in container.decode(video=0)]
    assert shades == pytest.approx(range(0, 250, 25), abs=6)
    assert not video.path.exists()


@pytest.mark.parametrize("data", [b"\x01", b"\x04\x00\x00\x00" * 3 + b"nothing"])
def test_a_file_without_frames_is_refused(tmp_path, data):
    path = tmp_path / "b.frames"
    path.write_bytes(data)
    with pytest.raises(DamagedFile, match="b.frames contains invalid frames"):
        list(read_frames(path))


@pytest.mark.parametrize("is_there", [False, True])
def test_a_video_of_the_scripts_own_stays_there_and_is_found_among_those_of_the_run(tmp_path, is_there):
    folder = tmp_path / "videos" / "CartPole-v1__ppo"
    folder.mkdir(parents=True)
    video = folder / "rl-video-episode-8.mp4"
    frames = FrameRecording(folder / "rl-video-episode-8.mp4.frames")
    frames.add(np.zeros((16, 24, 3), dtype=np.uint8))
    frames.close()
    if is_there:
        make_video(frames.path, video, 10.0)
    stored = link_video("" if is_there else str(frames.path), video, 0.0, tmp_path / "videos")
    assert stored == tmp_path / "videos" / "CartPole-v1__ppo-rl-video-episode-8.mp4"
    assert stored.read_bytes() == video.read_bytes()
    assert [path.name for path in folder.iterdir()] == [video.name]
