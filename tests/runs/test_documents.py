from __future__ import annotations

import math

import pytest

from palaestra.config.train import TrainConfig
from palaestra.config.yaml import parse_yaml
from palaestra.core.errors import DamagedFile
from palaestra.runs.documents import (
    ABSENT,
    Difference,
    diff_configs,
    format_differences,
    read_config,
    read_request,
    write_config,
)
from palaestra.runs.files import read_yaml, write_yaml


def test_a_request_comes_back_as_it_was_requested(directory, request_for_a_run):
    assert read_request(directory) == request_for_a_run
    assert parse_yaml(directory.request_file.read_text())["schema_version"] == 1


def test_the_old_name_of_submitted_by_is_read(directory, request_for_a_run):
    text = directory.request_file.read_text()
    directory.request_file.write_text(text.replace("submitted_by:", "asked_by:"))
    assert read_request(directory) == request_for_a_run


def test_a_whole_config_comes_back_equal_and_valid(directory):
    config = TrainConfig(total_steps=7, ppo={"learning_rate": 1e-3, "target_kl": None})
    write_config(directory, config.model_dump(mode="json"))
    assert TrainConfig.model_validate(read_config(directory)) == config


def test_the_old_section_sinks_is_read_as_loggers(directory):
    config = TrainConfig(loggers={"csv": True})
    write_config(directory, config.model_dump(mode="json"))
    directory.config_file.write_text(directory.config_file.read_text().replace("loggers:", "sinks:"))
    assert read_config(directory) == config.model_dump(mode="json")
    write_yaml(directory.request_file, {**read_yaml(directory.request_file), "config": {"sinks": {"csv": True}}})
    assert read_request(directory).config == {"loggers": {"csv": True}}


def test_a_request_with_a_stray_key_is_damaged(directory):
    directory.request_file.write_text(directory.request_file.read_text() + "stray: 1\n")
    with pytest.raises(DamagedFile, match="stray"):
        read_request(directory)


def test_a_config_of_a_newer_schema_is_refused(directory):
    directory.config_file.write_text("schema_version: 9\n")
    with pytest.raises(DamagedFile, match="9; this Palaestra reads 1 to 1"):
        read_config(directory)


OLD = {"seed": 1, "ppo": {"gamma": 0.99, "clip": {"start": 0.2}}, "tags": [1, 2], "gone": None}
NEW = {"seed": 2, "ppo": {"gamma": 0.99, "clip": {"start": 0.1}}, "tags": [1, 3], "fresh": None}


def test_differences_are_named_by_their_whole_key_and_sorted():
    assert diff_configs(OLD, NEW) == [
        Difference("fresh", ABSENT, None),
        Difference("gone", None, ABSENT),
        Difference("ppo.clip.start", 0.2, 0.1),
        Difference("seed", 1, 2),
        Difference("tags", [1, 2], [1, 3]),
    ]


def test_equal_configs_do_not_differ():
    assert diff_configs(OLD, OLD) == []
    assert diff_configs({}, {}) == []


@pytest.mark.parametrize(
    ("before", "after"), [(1, 1.0), (math.nan, math.nan), ([1, {"a": 2}], (1.0, {"a": 2})), (None, None)]
)
def test_values_that_mean_the_same_are_equal(before, after):
    assert diff_configs({"x": before}, {"x": after}) == []


@pytest.mark.parametrize(
    ("before", "after"), [(True, 1), (0, False), ("1", 1), ({}, None), ({"a": 1}, 1), ([1], [1, 2]), (None, ABSENT)]
)
def test_values_that_do_not_are_not(before, after):
    (difference,) = diff_configs({"x": before}, {"x": after})
    assert difference.key_path == "x"


def test_they_are_shown_one_a_line_and_a_long_list_is_cut_with_its_count():
    text = format_differences(diff_configs(OLD, NEW))
    assert text.splitlines()[:3] == ["fresh: (absent) -> None", "gone: None -> (absent)", "ppo.clip.start: 0.2 -> 0.1"]
    assert format_differences(diff_configs(OLD, NEW), limit=1).splitlines()[1:] == ["and 4 more"]
    assert format_differences([]) == ""
