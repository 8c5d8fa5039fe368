"""`python -m palaestra.apps.matmul.benchmark.worker REQUEST RESULT`: a benchmark in a child process.

BLAS reads its number of threads once, when it is loaded; so it is set in the environment of the child.
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
    """Runs a benchmark in a child process; its output goes to stderr if `verbose`."""
    with tempfile.TemporaryDirectory(prefix="palaestra-bench-") as folder:
        request, result = Path(folder) / "request.json", Path(folder) / "result.json"
        content = {"file": str(entry.file), "name": name, "config": config.model_dump(mode="json")}
        request.write_text(json.dumps(content))
        try:
            done = subprocess.run(
                [sys.executable, "-m", MODULE, str(request), str(result)],
                env={**os.environ, **dict.fromkeys(THREAD_COUNTS, str(config.threads))},
                stdout=subprocess.DEVNULL,
                stderr=None if verbose else subprocess.PIPE,
                text=True,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"The benchmark exceeded its time limit of {timeout:.0f} s.") from error
        if not result.exists():
            message = (done.stderr or "").strip().splitlines()[-1:] or ["see above"]
            raise RunFailed(f"The benchmark failed with exit code {done.returncode}: {message[0]}")
        return decode_benchmark(json.loads(result.read_text()), "The result of the benchmark process")


def main(request: Path, result: Path) -> int:
    content = json.loads(request.read_text())
    file = Path(content["file"])
    try:
        entry = Archive(file.parent.parent).read(file)
        config = BenchConfig.model_validate(content["config"])
        benchmark = run_benchmark(entry, config, content["name"], lambda text: print(text, file=sys.stderr, flush=True))
    except PalaestraError as error:
        print(f"palaestra: {error}", file=sys.stderr)
        return error.exit_code
    result.write_text(json.dumps(encode_benchmark(benchmark)))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
