"""Pictures of environments that live in a worker process.

What is drawn is a luxury: what goes wrong with it is told to whoever asked, and the worker goes on stepping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.envs.frame_sources import EnvsSource

if TYPE_CHECKING:
    from palaestra.envs.share import Share


class Studio:
    """Of the environments of one worker"""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._source = EnvsSource(share)

    def draw(self, env_index: int) -> dict[str, Any]:
        tile = env_index - self._share.first_index
        try:
            view = self._source.view(tile)
        except Exception as error:  # noqa: BLE001  what draws may raise anything, and training must not notice
            return {"failure": f"{type(error).__name__}: {error}"}
        return {"picture": view.content, "total_reward": view.numbers.total_reward, "length": view.numbers.length}
