"""Helps PufferLib's setup.py: for the processor alone, and without its environments (NO_OCEAN=1).

It builds for CUDA wherever a program is called nvcc, and without its environments still asks for the list of their
folders.
"""

import builtins
import shutil

find = shutil.which
shutil.which = lambda name, *more, **options: None if name == "nvcc" else find(name, *more, **options)
builtins.c_extension_paths = []
