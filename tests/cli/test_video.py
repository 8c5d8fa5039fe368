import json

import pytest


def test_a_video_is_made_and_its_place_is_reported(call, runs):
    code, out, err = call("video", "first", "--episodes", "1", "env.max_episode_steps=5")
    assert code == 0
    assert out.strip().endswith(".mp4")
    assert "return 5, 5 steps" in err
    assert (runs / "by-name/first/videos").resolve().joinpath(out.strip().rpartition("/")[2]).is_file()


def test_json_reports_everything_and_nothing_else_is_on_stdout(call, runs):
    words = (
        "video",
        "first",
        "--grid",
        "2",
        "--episodes",
        "2",
        "--seed",
        "3",
        "--fps",
        "20",
        "--out",
        "a.mp4",
        "--json",
    )
    code, out, _ = call(*words, "env.max_episode_steps=5")
    video = json.loads(out)
    assert code == 0
    assert [episode["seed"] for episode in video["episodes"]] == [3, 4]
    assert (video["frame_rate"], video["path"]) == (20, "a.mp4")
    assert video["width"] > video["height"]


def test_a_file_that_is_there_is_replaced_by_force_only(call, runs, workplace):
    (workplace / "a.mp4").write_bytes(b"old")
    words = ("video", "first", "--episodes", "1", "--out", "a.mp4", "env.max_episode_steps=5")
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert "--force" in err
    assert (workplace / "a.mp4").read_bytes() == b"old"
    assert call(*words, "--force")[0] == 0
    assert (workplace / "a.mp4").read_bytes() != b"old"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "needs a run"),
        (["frist"], 3, "Did you mean 'first'?"),
        (["first:99"], 3, "Epochs there"),
        (["first", "second"], 2, "Expected one name"),
        (["first", "--episodes", "0"], 2, "at least 1"),
        (["first", "--grid", "0"], 2, "at least 1"),
        (["first", "--grid", "100"], 2, "1 to 64"),
        (["first", "--fps", "-3"], 2, "frame rate"),
        (["first", "--out", "a.gif"], 2, ".mp4"),
        (["first", "ppo.gamma=1"], 2, "has no setting"),
    ],
)
def test_what_cannot_be_recorded_is_refused(call, runs, words, code, said):
    got, out, err = call("video", *words)
    assert (got, out) == (code, "")
    assert said in err
