"""`python -m palaestra.apps.matmul.benchmark.worker REQUEST ANSWER`: a benchmark in a process of its own.

BLAS reads how many threads it may have when it is loaded, and never again: so the number is set before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.apps.matmul.benchmark.report import decode_benchmark, encode_benchmark, run_benchmark
from palaestra.apps.matmul.config import BenchConfig
from palaestra.apps.matmul.schemes.archive import Archive
from palaestra.core.errors import PalaestraError, RunFailed

if TYPE_CHECKING:
    from palaestra.apps.matmul.benchmark.report import Benchmark
    from palaestra.apps.matmul.schemes.archive import Discovery

MODULE = "palaestra.apps.matmul.benchmark.worker"
THREAD_COUNTS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def benchmark_in_subprocess(
    entry: Discovery, config: BenchConfig, name: str, *, verbose: bool, timeout: float | None = None
) -> Benchmark:
    """The benchmark, made by a child; what it says goes to stderr, or nowhere."""
    with tempfile.TemporaryDirectory(prefix="palaestra-bench-") as folder:
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        asked = {"file": str(entry.file), "name": name, "config": config.model_dump(mode="json")}
        request.write_text(json.dumps(asked))
        try:
            done = subprocess.run(
                [sys.executable, "-m", MODULE, str(request), str(answer)],
                env={**os.environ, **dict.fromkeys(THREAD_COUNTS, str(config.threads))},
                stdout=subprocess.DEVNULL,
                stderr=None if verbose else subprocess.PIPE,
                text=True,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"The benchmark did not end within {timeout:.0f} s.") from error
        if not answer.exists():
            told = (done.stderr or "").strip().splitlines()[-1:] or ["see above"]
            raise RunFailed(f"The benchmark ended with {done.returncode}: {told[0]}")
        return decode_benchmark(json.loads(answer.read_text()), "The worker's report")


def main(request: Path, answer: Path) -> int:
    asked = json.loads(request.read_text())
    file = Path(asked["file"])
    try:
        entry = Archive(file.parent.parent).read(file)
        config = BenchConfig.model_validate(asked["config"])
        made = run_benchmark(entry, config, asked["name"], lambda text: print(text, file=sys.stderr, flush=True))
    except PalaestraError as error:
        print(f"palaestra: {error}", file=sys.stderr)
        return error.exit_code
    answer.write_text(json.dumps(encode_benchmark(made)))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
