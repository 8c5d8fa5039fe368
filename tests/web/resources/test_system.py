import os

import psutil

from palaestra.web.resources.system import describe_load


def test_the_system_route_describes_machine_and_daemon(client, daemon):
    system = client.get("/api/system").json()
    assert system["pid"] == os.getpid()
    assert system["memory"]["total"] == psutil.virtual_memory().total
    assert system["cores"] == len(os.sched_getaffinity(0))
    assert system["runs_root"] == system["disk"]["path"] == str(daemon.root)
    assert system["disk"]["free"] > 0
    assert {"native", "evaluate", "nap"} <= set(system["kinds"])
    assert "local" in system["executors"]


def test_used_slots_are_counted(client, context, daemon):
    assert describe_load(context)["slots"]["used"]["cpus"] == 0
    for _ in range(2):
        client.post("/api/runs", json={"kind": "nap", "config": {"seconds": 60}})
    waiting = [entry for entry in daemon.runs() if entry.is_waiting]
    load = describe_load(context)
    assert load["queued"] == len(waiting)
    assert load["slots"]["cpus"] == 1


def test_a_missing_disk_is_null(client, daemon, monkeypatch):
    monkeypatch.setattr(
        "palaestra.web.resources.system.shutil.disk_usage", lambda path: (_ for _ in ()).throw(OSError())
    )
    assert client.get("/api/system").json()["disk"]["free"] is None
