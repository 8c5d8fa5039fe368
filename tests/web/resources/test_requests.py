from palaestra.config.resolve import resolve_training
from palaestra.web.resources.requests import RunBody


def check(client, **request):
    reply = client.post("/api/requests/check", json=request)
    assert reply.status_code == 200
    return reply.json()


def test_a_request_is_completed_without_a_run(client):
    found = check(client, recipe="cartpole", config={"total_steps": 1e6, "ppo": {"gamma": 0.5}}, name="x")
    expected = resolve_training("cartpole", {"total_steps": 1e6, "ppo": {"gamma": 0.5}}).model_dump(mode="json")
    assert found["errors"] == []
    assert found["config"] == expected
    assert "gamma: 0.5" in found["yaml"]
    assert found["command"] == "palaestra train cartpole run=x total_steps=1000000.0 ppo.gamma=0.5"
    assert client.get("/api/runs").json()["total"] == 0


def test_the_check_returns_all_errors(client):
    found = check(client, recipe="cartpole", config={"ppo": {"gama": 1}, "device": "tpu"}, nproc=3000)
    assert sorted(error["key"] for error in found["errors"]) == ["device", "ppo.gama"]
    assert found["config"] is None
    assert any("Did you mean 'ppo.gamma'" in error["hint"] for error in found["errors"])
    assert [error["key"] for error in check(client, recipe="carpole")["errors"]] == ["recipe"]


def test_a_request_with_invalid_types_is_refused(client):
    for body in (
        {"recipe": 5},
        {"nproc": 0},
        {"limits": {"disk": 1}},
        {"priority": 5000},
        {"submitted_by": "a\nb"},
        [],
    ):
        assert client.post("/api/requests/check", json=body).status_code == 422


def test_the_old_name_of_submitted_by_is_accepted():
    assert RunBody.model_validate({"asked_by": "ci"}).request("api").submitted_by == "ci"
    assert RunBody.model_validate({"submitted_by": "ci"}).request("api").submitted_by == "ci"


def test_yaml_is_parsed_to_settings(client):
    def parse(text):
        return client.post("/api/requests/parse", json={"yaml": text})

    assert parse("total_steps: 1000\nppo:\n  gamma: 0.9\n").json() == {
        "config": {"total_steps": 1000, "ppo": {"gamma": 0.9}}
    }
    assert parse("").json() == {"config": {}}
    for bad in ("a: [", "- 1", "5", "a: &x 1\nb: *x", "!!python/object:os.system x", "a: 1\na: 2", "[" * 1000):
        assert parse(bad).status_code == 422
    assert parse("a" * (1 << 17) + "a").status_code == 422


def test_the_check_of_a_script_returns_the_request_not_the_resolved_config(client, tmp_path):
    script = tmp_path / "small.py"
    script.write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Args:\n    seed: int = 3\n    lr: float = 0.5\n"
    )
    found = check(client, kind="cleanrl", config={"script": str(script), "lr": 0.25})
    assert found["errors"] == []
    assert {key: found["config"][key] for key in ("script", "seed", "lr")} == {
        "script": str(script),
        "seed": 3,
        "lr": 0.25,
    }
    again = check(
        client, kind="cleanrl", config=client.post("/api/requests/parse", json={"yaml": found["yaml"]}).json()["config"]
    )
    assert (again["errors"], again["config"]) == ([], found["config"])
