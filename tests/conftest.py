"""One thread per test process: two processes of pytest with two threads each make two cores slower, not faster."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
