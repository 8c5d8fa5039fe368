"""Discovery of matrix-multiplication algorithms: schemes, search, agent and benchmarks."""
