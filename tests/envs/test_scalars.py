import numpy as np

from palaestra.envs.scalars import scalars


def test_scalars_of_the_last_info_are_kept():
    info = {"score": np.float32(0.5), "won": True, "lives": 3, "flag": np.bool(False), "name": "x", "map": np.zeros(2)}
    assert scalars(info) == {"score": 0.5, "won": 1.0, "lives": 3.0, "flag": 0.0}
