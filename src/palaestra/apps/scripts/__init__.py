"""Runs unmodified CleanRL scripts, and other scripts that use Gymnasium, like any other run."""
