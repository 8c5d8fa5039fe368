"""`python -m palaestra` is the same as `palaestra`."""

import sys

from palaestra.cli.main import main

sys.exit(main())
