import subprocess
import sys

import pytest

from palaestra.apps.matmul.agent_config import AgentConfig, fits_agent, refuse_large
from palaestra.apps.matmul.format import Format
from palaestra.core.errors import UsageError


def test_the_agent_plays_up_to_nine_entries_a_matrix():
    assert fits_agent(Format(3, 3, 3))
    assert not fits_agent(Format(2, 2, 5))
    with pytest.raises(UsageError, match="2x2x5 is too large for the agent"):
        refuse_large(Format(2, 2, 5))


def test_by_default_it_is_shown_no_scheme():
    assert AgentConfig().demonstrations == "synthetic"


def test_what_the_daemon_reads_of_it_loads_no_torch():
    code = "import sys, palaestra.apps.matmul.kind; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
