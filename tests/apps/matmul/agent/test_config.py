from __future__ import annotations

import subprocess
import sys

import pytest

from palaestra.apps.matmul.agent.config import (
    AgentConfig,
    GameSettings,
    check_fits_agent,
    fits_agent,
    read_game_settings,
)
from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.core.errors import UsageError


def test_the_agent_supports_matrices_of_up_to_nine_entries():
    assert fits_agent(Format(3, 3, 3))
    assert not fits_agent(Format(2, 2, 5))
    with pytest.raises(UsageError, match="2x2x5 is too large for the agent"):
        check_fits_agent(Format(2, 2, 5))


def test_demonstrations_are_synthetic_by_default():
    assert AgentConfig().demonstrations == "synthetic"


def test_importing_the_config_does_not_load_torch():
    code = "import sys, palaestra.apps.matmul.kind; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_default_number_of_moves_is_the_naive_rank():
    assert GameSettings(format="2x3x4").moves == 24
    assert GameSettings(format="2x3x4", max_rank=20).moves == 20


def test_an_action_has_a_coefficient_for_every_entry_of_the_three_matrices():
    assert GameSettings(format="2x3x4").action_size == 6 + 12 + 8


def test_aliases_of_fields_are_accepted():
    assert GameSettings(field="ternary").coefficients is Field.ZT


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "3x3"}, "Invalid format: '3x3'"),
        ({"format": "0x2x2"}, "side 0"),
        ({"format": "9x9x9"}, "too large: more than 32,768"),
        ({"field": "q"}, "invalid field: q"),
        ({"field": "gf5"}, "No field named 'gf5'"),
        ({"max_rank": -1}, "max_rank"),
        ({"max_rnak": 1}, "No setting named 'max_rnak'"),
    ],
)
def test_invalid_settings_are_refused_with_their_value(settings, message):
    with pytest.raises(UsageError, match=message):
        read_game_settings(settings)


def test_a_misspelt_setting_gets_a_suggestion():
    with pytest.raises(UsageError) as error:
        read_game_settings({"fromat": "2x2x2"})
    assert error.value.hint == "Did you mean 'format'?"
