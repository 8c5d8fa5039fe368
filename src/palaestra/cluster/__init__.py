"""Ray: evaluations, trainings and sweeps on more than this machine; the extra `cluster`."""
