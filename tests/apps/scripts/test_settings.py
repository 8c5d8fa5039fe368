import pytest
from pydantic import ValidationError

from palaestra.apps.scripts.settings import OWN_KEYS, LaunchConfig


def test_our_own_settings_are_few_and_checked():
    assert OWN_KEYS == ("script", "python", "save_seconds", "keep", "start_from", "live_budget", "wandb_mode")
    with pytest.raises(ValidationError):
        LaunchConfig(save_seconds=-1)
    with pytest.raises(ValidationError):
        LaunchConfig(wandb_mode="sometimes")
