"""PufferLib's setup.py, told by NO_OCEAN=1 to leave its environments out, still asks for the list of their folders."""

import builtins

builtins.c_extension_paths = []
