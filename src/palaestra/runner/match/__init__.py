"""Matches: environments side by side on the same seeds, played step by step together and watched live."""
