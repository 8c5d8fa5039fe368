"""What can go wrong while saving, apart from what the file itself is."""

from __future__ import annotations

from palaestra.core.errors import PalaestraError


class SaveFailed(PalaestraError):
    """The disk said no. What was committed before is untouched and nothing half-written is left; try again later."""
