import subprocess
import sys

import pytest

PROGRAM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, {limits})
from palaestra.core.errors import UsageError
from palaestra.runner.open_files import require_open_files
try:
    require_open_files()
except UsageError as error:
    print(error)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.fault("G15")
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ((64, 64), ["(64, 64)"]),
        ((30, 200), ["(200, 200)"]),
        ((63, 63), ["This process may open only 63 files; training needs at least 64.", "(63, 63)"]),
    ],
)
def test_too_few_are_raised_as_far_as_they_can_be_or_refused(limits, said):
    """In a process of its own: a hard limit that was lowered stays low."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM.format(limits=limits)], capture_output=True, text=True)
    lines = ended.stdout.splitlines()
    assert len(lines) == len(said), ended.stderr
    assert all(line.startswith(text) for line, text in zip(lines, said, strict=True))


@pytest.mark.fault("G15")
@pytest.mark.slow
def test_a_training_with_twelve_files_says_so_in_one_line_and_leaves_nothing(tmp_path):
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12));"
        "from palaestra.cli.main import main; raise SystemExit(main(['train', 'cartpole', 'total_steps=2000']))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith("palaestra: This process may open only 12 files")
    assert "ulimit -n" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []
