"""Palaestra: the training ground beside the Gymnasium."""
