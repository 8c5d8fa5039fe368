"""Where compiled modules from before `palaestra.algorithms.group` look up the exception."""

from palaestra.algorithms.group import PeerLost

__all__ = ["PeerLost"]
