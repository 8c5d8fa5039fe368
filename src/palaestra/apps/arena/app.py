"""The app that Arena registers: replays, recording, and games for a person."""

from __future__ import annotations

from palaestra.core.app import App

ENV_ID = "palaestra/Arena-v0"

APP = App(
    replays={"arena": "palaestra.apps.arena.replay:open_replay"},
    recorders={ENV_ID: "palaestra.apps.arena.replay:record_batch"},
    games={ENV_ID: "palaestra.apps.arena.game:open_game"},
)
