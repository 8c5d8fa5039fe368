"""Tools for the reliability of this repository: fault matrix, soak test, mutation testing. Not installed."""
