import json
import os

import pytest

from palaestra.apps.matmul.benchmark import worker
from palaestra.apps.matmul.benchmark.worker import THREAD_COUNTS, benchmark_in_subprocess, main
from palaestra.apps.matmul.config import BenchConfig
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.core.errors import RunFailed

QUICK = BenchConfig(dtypes=("object",), object_sizes=(2,), bits=(64,), seconds=0.01, threads=2)
ORIGIN = Provenance("01RUN", "flip", 1, 2, 3.0, 4.0, 5.0)


@pytest.fixture
def entry(strassen, tmp_path):
    return Archive(tmp_path).add(verify(strassen), ORIGIN)[0]


def test_the_thread_count_is_set_before_blas_is_loaded(entry, monkeypatch):
    asked = {}
    real = worker.subprocess.run

    def run(command, **options):
        asked.update(options["env"])
        return real(command, **options)

    monkeypatch.setattr(worker.subprocess, "run", run)
    made = benchmark_in_subprocess(entry, QUICK, "01B", verbose=False)
    assert {asked[name] for name in THREAD_COUNTS} == {"2"}
    assert (made.id, made.threads, len(made.cells)) == ("01B", 2, 1)
    assert made.cells[0].is_exact
    assert asked["PATH"] == os.environ["PATH"]


def test_a_failure_of_the_child_is_reported(entry):
    entry.file.write_text("{")
    with pytest.raises(RunFailed, match="exit code 1"):
        benchmark_in_subprocess(entry, QUICK, "01B", verbose=False)


def test_an_error_has_its_exit_code(strassen_bits, tmp_path, capsys):
    entry, _ = Archive(tmp_path).add(verify(strassen_bits), ORIGIN)
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"file": str(entry.file), "name": "x", "config": QUICK.model_dump(mode="json")}))
    assert main(request, tmp_path / "answer.json") == 2
    assert "modulo 2 only" in capsys.readouterr().err
    assert not (tmp_path / "answer.json").exists()
