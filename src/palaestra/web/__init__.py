"""The daemon's HTTP door: see `palaestra.web.app` for how a resource enters it."""
