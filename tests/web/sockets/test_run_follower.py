import asyncio

import pytest

from palaestra.core.errors import NotFound
from palaestra.core.metrics_logger import Sample
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.web.sockets.run_follower import LOG_BYTES, FollowBody, RunFollower, _incomplete_bytes


def collect(follower, wanted, *steps):
    """Follow, then after each step what was told."""

    async def play():
        await follower.follow(wanted)
        told = []
        for step in (lambda: None, *steps):
            step()
            told.append(await follower.collect())
        return told

    return asyncio.run(play())


def write_metrics(directory, values):
    writer = MetricsWriter(directory.metrics_file)
    for step, value in values.items():
        writer.write(Sample(step=step, metrics={"x": value}, timings={}, at=float(step)))
    writer.close()


def texts(messages):
    return [message["text"] for message in messages]


def test_new_log_output_is_sent(context, make_run):
    directory = make_run("first")
    output = directory.output_file()
    output.write_text("one\n")

    def grow(text):
        def step():
            with output.open("a") as stream:
                stream.write(text)

        return step

    told = collect(RunFollower(context), FollowBody(run="first", log=True), grow("two\n"), lambda: None, grow("ä"))
    assert [texts(messages) for messages in told] == [["one\n"], ["two\n"], [], ["ä"]]
    assert told[1][0]["from"] == told[0][0]["next"] == 4


def test_a_long_log_starts_with_its_end(context, make_run):
    make_run("first").output_file().write_bytes(b"x" * LOG_BYTES + b"y" * LOG_BYTES)
    ((message,),) = collect(RunFollower(context), FollowBody(run="first", log=True))
    assert (message["text"], message["from"]) == ("y" * LOG_BYTES, LOG_BYTES)


def test_a_truncated_log_is_sent_from_its_new_start(context, make_run):
    output = make_run("first").output_file()
    output.write_text("a long story\n")
    told = collect(RunFollower(context), FollowBody(run="first", log=True), lambda: output.write_text("new\n"))
    assert texts(told[1]) == ["new\n"]


def test_a_partial_character_is_sent_with_the_next_piece(context, make_run):
    output = make_run("first").output_file()
    output.write_bytes("ab€".encode()[:-1])
    told = collect(RunFollower(context), FollowBody(run="first", log=True), lambda: output.write_bytes("ab€".encode()))
    assert [texts(messages) for messages in told] == [["ab"], ["€"]]


@pytest.mark.parametrize("letter", ["a", "ä", "€", "😀"])
def test_incomplete_bytes_at_the_end_are_counted(letter):
    whole = letter.encode()
    assert _incomplete_bytes(b"x" + whole) == 0
    assert [_incomplete_bytes(b"x" + whole[:end]) for end in range(1, len(whole))] == list(range(1, len(whole)))


def test_a_run_without_metrics_or_log_sends_nothing(context, make_run):
    make_run("first")
    assert collect(RunFollower(context), FollowBody(run="first", log=True, metrics=True)) == [[]]


def test_metrics_are_sent_after_the_newest_sample(context, make_run):
    directory = make_run("first")
    write_metrics(directory, {1: 0.5})
    told = collect(
        RunFollower(context), FollowBody(run="first", metrics=True), lambda: write_metrics(directory, {2: 0.75})
    )
    assert told[0] == []
    ((message,)) = told[1]
    assert [(point["step"], point["name"], point["value"]) for point in message["points"]] == [(2, "x", 0.75)]


def test_following_no_run_sends_nothing_and_an_unknown_run_is_not_found(context, make_run):
    make_run("first")
    follower = RunFollower(context)
    assert collect(follower, None) == [[]]
    with pytest.raises(NotFound):
        collect(follower, FollowBody(run="nobody", log=True))
