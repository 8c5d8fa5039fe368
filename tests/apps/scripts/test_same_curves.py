"""What a script learns under the launcher is what it learns alone, to the last bit."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from palaestra.apps.scripts.kind import KIND
from palaestra.runs.metrics.reader import MetricsReader

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
PATIENCE_SECONDS = 240
CHANGES = {
    '"final_info" in infos': "False",  # in the form of another Gymnasium, and only for the log
    "envs.single_action_space.sample()": "random.randrange(2)",  # what the script does not seed
    "total_timesteps: int = 2048": "total_timesteps: int = 512",
    "global_step % 100 == 0": "global_step % 10 == 0",
}


@pytest.fixture
def modern(scripts, tmp_path):
    """A script as if it were written for the Gymnasium that is installed: it asks for its way to reset itself."""

    def make(name):
        text = (scripts / name).read_text()
        text = re.sub(
            r"vector\((\[make_env.*\])\)|gym\.vector\.SyncVectorEnv\((\[.*\])\)",
            lambda found: f"gym.vector.SyncVectorEnv({found[1] or found[2]}, autoreset_mode=SAME_STEP)",
            text,
        )
        text = text.replace("import numpy", "SAME_STEP = gym.vector.AutoresetMode.SAME_STEP\nimport numpy", 1)
        for old, new in CHANGES.items():
            text = text.replace(old, new)
        assert text.count("autoreset_mode=SAME_STEP") == 1
        path = tmp_path / "room" / name
        path.parent.mkdir()
        path.write_text(text)
        return path

    return make


def alone(script, folder):
    """Losses by tag, as the script's own event file has them; its command line is empty."""
    (folder / "tyro.py").write_text("def cli(kind):\n    return kind()\n")
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env={**ENVIRONMENT, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    (events,) = (folder / "runs").iterdir()
    found = EventAccumulator(str(events))
    found.Reload()
    tags = [tag for tag in found.Tags()["scalars"] if tag.startswith("losses/")]
    return {tag: [(one.step, np.float32(one.value)) for one in found.Scalars(tag)] for tag in tags}


def under_the_launcher(directory):
    done = subprocess.run(
        KIND.command(directory.path), env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reader = MetricsReader(directory.metrics_file)
    try:
        tags = [name for name in reader.names(timings=False) if name.startswith("losses/")]
        return {tag: [(point.step, np.float32(point.value)) for point in reader.series(tag)] for tag in tags}
    finally:
        reader.close()


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("name", ["ppo.py", "dqn.py"])
def test_every_loss_is_the_one_that_the_bare_script_has(runs, modern, tmp_path, name):
    script = modern(name)
    folder = tmp_path / "alone"
    folder.mkdir()
    bare = alone(script, folder)
    assert bare
    assert sum(map(len, bare.values())) >= 3
    assert under_the_launcher(runs.make(script)) == bare
