"""Who plays and learns within an iteration: torch for every network, native for networks of linear layers."""
