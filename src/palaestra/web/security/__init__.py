"""Checks every request: token, Host and Origin, sizes and times."""
