import numpy as np
import pytest
import torch

from palaestra.apps.scripts.launcher.infos import old_infos


@pytest.fixture
def infos():
    """As Gymnasium 1 tells them when the first of two environments has come to an end."""
    return {
        "final_obs": np.array([1, 2]),
        "_final_obs": np.array([True, False]),
        "final_info": {
            "episode": {"r": np.array([5.0, 0.0]), "_r": np.array([True, False])},
            "_episode": np.array([True, False]),
            "lives": np.array([0, 3]),
            "_lives": np.array([False, True]),
        },
        "_final_info": np.array([True, False]),
    }


def test_infos_come_out_one_by_one_and_masked_entries_are_left_out(infos):
    found = old_infos(infos, 2)
    assert found["final_info"][1] is None
    assert found["final_info"][0] == {"episode": {"r": np.array([5.0])}}
    assert [info is not None for info in found["final_info"]] == [True, False]
    assert found["final_observation"] is infos["final_obs"]


def test_who_asks_as_gymnasium_1_has_it_is_answered_too(infos):
    final = old_infos(infos, 2)["final_info"]
    assert final["_episode"].tolist() == [True, False]
    assert final["episode"]["r"][0] == 5.0
    assert "episode" in final
    assert "score" not in final


def test_a_return_is_an_array_of_one_number_and_a_number(infos):
    total = old_infos(infos, 2)["final_info"][0]["episode"]["r"]
    assert (total.shape, str(total)) == ((1,), "[5.]")
    assert (float(total), int(total)) == (5.0, 5)
    assert np.mean([total, total]) == 5.0
    assert torch.as_tensor(total).tolist() == [5.0]
