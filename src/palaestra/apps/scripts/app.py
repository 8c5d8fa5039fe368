"""The app that runs scripts: a scanner for checkouts, and evaluation of scripts' checkpoints."""

from __future__ import annotations

from palaestra.core.app import App

EVALUATED_BY = "palaestra.apps.scripts.external_policy:ScriptPolicy"

APP = App(
    scanners={"cleanrl": "palaestra.apps.scripts.scan:scan"},
    external_policies={"cleanrl": EVALUATED_BY, "script": EVALUATED_BY},
)
