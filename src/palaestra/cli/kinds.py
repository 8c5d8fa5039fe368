"""Whether `palaestra train WORD` means a recipe of our own trainer, or another kind of worker."""

from __future__ import annotations

from palaestra.config.recipes.registry import recipe_names
from palaestra.core import plugins

GROUP = "workers"
OURS = {"native", "evaluate"}  # they have commands of their own


def is_other_kind(word: str) -> bool:
    """A recipe of the same name goes before."""
    return word in plugins.names(GROUP) and word not in OURS and word not in recipe_names()
