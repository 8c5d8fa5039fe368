"""`python full_memory.py WORDS…`: a training, and someone who watches it, where shared memory is as small as it is.

Run inside a mount of its own; the viewer is a child that asks for every tile until the training is over.
"""

from __future__ import annotations

import os
import sys
import time

from palaestra.cli.main import main
from palaestra.core.errors import PalaestraError
from palaestra.rendering.frame_buffer import all_frame_buffers
from palaestra.rendering.frame_format import Demand
from palaestra.rendering.frame_reader import FrameReader


def watch(parent: int) -> None:
    while os.getppid() == parent:
        for path in all_frame_buffers():
            try:
                reader = FrameReader(path)
            except PalaestraError:
                continue
            reader.request(Demand(60.0, 0, frozenset(range(8)), 1, 1), time.monotonic() + 2)
            reader.close()
        time.sleep(0.01)


if __name__ == "__main__":
    trainer = os.getpid()
    if os.fork() == 0:
        watch(trainer)
        os._exit(0)
    sys.exit(main(sys.argv[1:]))
