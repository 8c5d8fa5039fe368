"""All resources, in one list: a new file enters with an import and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.web import (
    artifacts,
    checkpoints,
    cluster,
    diff,
    discoveries,
    evaluations,
    events,
    frames_socket,
    journal,
    login,
    logs,
    match_socket,
    metrics,
    recipes,
    replays,
    requests,
    run_list,
    runs,
    system,
    tensorboard,
    uploads,
    videos,
)

if TYPE_CHECKING:
    from palaestra.web.route import Declared

RESOURCES: tuple[tuple[Declared, ...], ...] = (
    login.ROUTES,
    system.ROUTES,
    cluster.ROUTES,
    recipes.ROUTES,
    requests.ROUTES,
    run_list.ROUTES,
    runs.ROUTES,
    events.ROUTES,
    metrics.ROUTES,
    evaluations.ROUTES,
    videos.ROUTES,
    replays.ROUTES,
    artifacts.ROUTES,
    logs.ROUTES,
    journal.ROUTES,
    diff.ROUTES,
    frames_socket.ROUTES,
    match_socket.ROUTES,
    tensorboard.ROUTES,
    uploads.ROUTES,
    checkpoints.ROUTES,
    discoveries.ROUTES,
)


def all_routes() -> list[Declared]:
    return [declared for routes in RESOURCES for declared in routes]
