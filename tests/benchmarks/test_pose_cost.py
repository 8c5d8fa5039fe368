import pose_cost


def test_telling_costs_more_than_taking_and_far_less_than_drawing(monkeypatch):
    monkeypatch.setattr(pose_cost, "REPEATS", 3)
    taken, told, drawn = pose_cost.measure("CartPole-v1")
    assert 0 < taken < told < drawn / 3
