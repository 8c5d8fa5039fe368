import os

from palaestra.daemon.output_log import FASTEST_SECONDS, SLOWEST_SECONDS, OutputLog

LIMIT = 1000


def open_log(tmp_path):
    return OutputLog(tmp_path / "output.log", tmp_path / "output.1.log", LIMIT)


def test_a_short_log_is_not_changed(tmp_path):
    log = open_log(tmp_path)
    os.write(log.open(), b"few words\n")
    log.trim()
    assert (tmp_path / "output.log").read_bytes() == b"few words\n"
    assert not (tmp_path / "output.1.log").exists()


def test_a_long_log_is_truncated_and_its_end_stored(tmp_path):
    log = open_log(tmp_path)
    stream = log.open()
    os.write(stream, bytes(range(256)) * 20)
    log.trim()
    os.write(stream, b"after\n")
    reports = f"[palaestra: {5120 - LIMIT // 2} bytes of output or more were dropped here]\n".encode()
    assert (tmp_path / "output.1.log").read_bytes() == reports + (bytes(range(256)) * 20)[-LIMIT // 2 :]
    assert (tmp_path / "output.log").read_bytes() == b"after\n"
    assert log.dropped == 5120 - LIMIT // 2


def test_any_amount_of_output_leaves_two_bounded_files(tmp_path):
    log = open_log(tmp_path)
    stream = log.open()
    for _ in range(200):
        os.write(stream, b"x" * 300)
        log.trim()
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert abs(log.dropped + sum(sizes) - 200 * 300) < 10_000  # but for our own words about it
    assert max(sizes) <= LIMIT + 300


def test_a_writer_without_append_mode_is_truncated_too(tmp_path):
    """It writes on at its old offset: the file looks long, but holds nothing there."""
    log = open_log(tmp_path)
    stream = os.open(tmp_path / "output.log", os.O_WRONLY | os.O_CREAT)
    for _ in range(10):
        os.write(stream, b"y" * 900)
        log.trim()
    assert (tmp_path / "output.1.log").stat().st_size <= LIMIT
    assert (tmp_path / "output.log").stat().st_blocks * 512 < 16_384


def test_a_fast_writer_is_checked_often(tmp_path):
    log = open_log(tmp_path)
    assert log.trim() == SLOWEST_SECONDS
    os.write(log.open(), b"z" * 950)
    assert FASTEST_SECONDS <= log.trim() < SLOWEST_SECONDS


def test_a_missing_directory_is_ignored(tmp_path):
    log = OutputLog(tmp_path / "gone" / "a", tmp_path / "gone" / "b", LIMIT)
    assert log.trim() == SLOWEST_SECONDS
