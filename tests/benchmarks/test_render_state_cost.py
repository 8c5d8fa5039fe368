import render_state_cost


def test_sending_costs_more_than_encoding_and_far_less_than_rendering(monkeypatch):
    monkeypatch.setattr(render_state_cost, "REPEATS", 3)
    encoded, sent, rendered = render_state_cost.measure("CartPole-v1")
    assert 0 < encoded < sent < rendered / 3
