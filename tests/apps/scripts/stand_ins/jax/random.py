import numpy as np


def PRNGKey(seed):
    return np.random.default_rng(seed)


def normal(key, shape):
    return key.normal(size=shape).astype(np.float32)
