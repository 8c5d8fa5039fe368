import subprocess

from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.kind import KIND
from palaestra.apps.matmul.worker import main
from palaestra.core.run import RunRequest, RunState
from palaestra.runs.documents import write_config
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore


def made(**settings):
    config = DiscoverConfig(format="2x2x2", seconds=5, **settings).model_dump(mode="json")
    return RunStore().create(RunRequest("matmul", "discover 2x2x2", config), config)


def test_the_command_of_the_kind_runs_a_prepared_search(workplace):
    directory = made()
    done = subprocess.run(KIND.command(directory.path), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert read_record(directory).state is RunState.FINISHED
    assert list((workplace / "runs" / "discoveries").glob("2x2x2-gf2-r7-*.json"))


def test_an_invalid_config_is_refused(workplace, capsys):
    directory = made()
    write_config(directory, {"format": "2x2"})
    assert main(directory) == 1
    assert str(directory.config_file) in capsys.readouterr().err
