"""The daemon's HTTP API and page: see `palaestra.web.app` for how to add a resource."""
