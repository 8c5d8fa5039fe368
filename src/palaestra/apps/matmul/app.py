"""What matrix-multiplication discovery adds to Palaestra: commands and the catalogue of discoveries."""

from __future__ import annotations

from palaestra.core.app import App

COMMANDS = "palaestra.apps.matmul.commands"

APP = App(
    commands={
        "discover": f"{COMMANDS}:DISCOVER",
        "discoveries": f"{COMMANDS}:DISCOVERIES",
        "verify": f"{COMMANDS}:VERIFY",
        "bench": f"{COMMANDS}:BENCH",
    },
    catalogues={"discoveries": "palaestra.apps.matmul.catalogue:CATALOGUE"},
)
