"""Client of a daemon's HTTP API, for the command line, notebooks and other machines. Does not import torch."""
