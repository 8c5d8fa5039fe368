from palaestra.config.train import TrainConfig
from palaestra.config.yaml_text import dump_yaml, parse_yaml


def test_what_a_run_writes_down_is_read_back_the_same():
    config = TrainConfig.model_validate(
        {"total_steps": 1e6, "env": {"kwargs": {"map": [1, {"a": None}]}}, "loggers": {"wandb": {"tags": ["x"]}}}
    )
    assert TrainConfig.model_validate(parse_yaml(dump_yaml(config.model_dump(mode="json")))) == config


def test_the_written_form_keeps_the_order_of_the_fields():
    text = dump_yaml(TrainConfig().model_dump(mode="json"))
    tops = [line.partition(":")[0] for line in text.splitlines() if not line.startswith(" ")]
    assert tops == list(TrainConfig.model_fields)
