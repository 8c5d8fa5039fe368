"""Benchmarks of a scheme: generated C, executors, timing, reports."""
