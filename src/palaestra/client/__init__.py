"""Talk to a daemon over HTTP: the command line, notebooks, other machines. Never torch."""
