from __future__ import annotations

import pytest

from palaestra.config.train import TrainConfig
from palaestra.config.yaml import parse_yaml
from palaestra.core.errors import DamagedFile
from palaestra.runs.documents import read_config, read_request, write_config
from palaestra.runs.files import read_yaml, write_yaml


def test_a_request_comes_back_as_it_was_asked(directory, request_for_a_run):
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
