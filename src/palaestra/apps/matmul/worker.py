"""`python -m palaestra.apps.matmul.worker RUN_DIRECTORY`: runs a search that a daemon has prepared."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import ValidationError

from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.discover import run_method
from palaestra.core.errors import DamagedFile, PalaestraError
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config

EXIT_INTERRUPTED = 130


def main(directory: RunDirectory) -> int:
    try:
        result = run_method(lambda: directory, stored_config(directory), print)
        return result.exit_code if result else 0
    except PalaestraError as error:
        print(f"palaestra: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def stored_config(directory: RunDirectory) -> DiscoverConfig:
    try:
        return DiscoverConfig.model_validate(read_config(directory))
    except ValidationError as error:
        raise DamagedFile(f"{directory.config_file} is not a valid search configuration: {error}.") from error


if __name__ == "__main__":
    sys.exit(main(RunDirectory(Path(sys.argv[1]))))
