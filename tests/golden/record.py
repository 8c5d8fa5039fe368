"""Records the results of every case on this family of processors: `python -m tests.golden.record [CASE ...]`.

Only for a change that is meant to change results; its commit says which and why.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.golden.cases import CASES, RECORDED, play, processor


def main(names: list[str]) -> None:
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    own = known.setdefault(processor(), {})
    for name in names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            own[name] = play(CASES[name], Path(folder))
        print(name, own[name])
    RECORDED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
