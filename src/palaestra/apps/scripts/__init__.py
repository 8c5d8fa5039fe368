"""Unmodified CleanRL scripts, and other scripts that use Gymnasium, as runs like any other."""
