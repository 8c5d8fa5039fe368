from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from palaestra.core.errors import UsageError
from palaestra.runs.logs import log_level, run_log

logger = logging.getLogger("palaestra.somewhere")


def test_every_line_carries_its_run_and_rank(directory):
    with run_log(directory, rank=1):
        logger.info("hello %s", "you")
    (line,) = directory.log_file(1).read_text().splitlines()
    assert re.fullmatch(rf"\S+ \S+Z INFO run={directory.id} rank=1 palaestra\.somewhere: hello you", line)


def test_lines_go_to_the_file_only_while_the_block_lasts(directory):
    before = logging.getLogger("palaestra").handlers[:]
    with pytest.raises(KeyError), run_log(directory):
        raise KeyError
    logger.warning("too late")
    assert directory.log_file().read_text() == ""
    assert logging.getLogger("palaestra").handlers == before


def test_a_second_session_adds_to_the_first(directory):
    for word in ("one", "two"):
        with run_log(directory):
            logger.info(word)
    assert [line.split()[-1] for line in directory.log_file().read_text().splitlines()] == ["one", "two"]


@pytest.mark.fault("W11")
def test_no_message_can_forge_a_second_record(directory):
    with run_log(directory):
        logger.info("a\n2026-01-01 INFO forged \x1b[31m \u202e \u2028 end")
    text = directory.log_file().read_text()
    assert text.count("\n") == 1
    assert text.strip().isprintable()
    assert "a\\n2026" in text


@pytest.mark.parametrize(
    ("word", "level"), [("debug", logging.DEBUG), ("WARNING", logging.WARNING), ("", logging.INFO)]
)
def test_the_level_comes_from_the_environment(monkeypatch, word, level):
    monkeypatch.setenv("PALAESTRA_LOG_LEVEL", word)
    assert log_level() == level


def test_an_unknown_level_is_refused_with_the_nearest_word(monkeypatch):
    monkeypatch.setenv("PALAESTRA_LOG_LEVEL", "warn")
    with pytest.raises(UsageError, match="Did you mean 'warning'"):
        log_level()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_lines_but_no_traceback(directory, capsys):
    directory.log_file().symlink_to("/dev/full")
    with run_log(directory):
        logger.warning("this line is lost")
    assert "Traceback" not in capsys.readouterr().err
