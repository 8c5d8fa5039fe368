"""The files on docs/clusters/*.md: scripts run with stubs, manifests have the right structure and versions."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from palaestra.cli.main import load_verb, main
from palaestra.runs.store import RunStore

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "clusters"
FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = {name: text for page in sorted(PAGES.glob("*.md")) for name, text in FILE.findall(page.read_text())}
SCRIPTS = ["train.sbatch", "ray.sbatch"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
PIECES = ["cartpole", "run=slurm", "total_steps=512", "ppo.env_count=2", "ppo.horizon=16", "ppo.minibatch_size=16"]

SRUN = r"""#!/bin/bash
# What srun does, on this machine: the command once for each task, each with its own number.
words="$*"
echo "srun ${words//$'\n'/ }" >> "$CALLS"
tasks=$SLURM_NNODES
while [[ $1 == --* ]]; do
    case $1 in --ntasks=*) tasks=${1#--ntasks=} ;; esac
    shift
done
for ((node = 0; node < tasks; node++)); do
    SLURM_NODEID=$node SLURM_PROCID=$node "$@" &
    pids+=($!)
done
trap 'kill "${pids[@]}"' TERM  # as srun does
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
"""
SCONTROL = '#!/bin/bash\n[ "$1 $2" = "show hostnames" ] && printf "127.0.0.1\\nnode2\\nnode3\\n"\n'
HOSTNAME = '#!/bin/bash\n[ "$1" = -I ] && echo "127.0.0.1 10.9.9.9 "\n'
PALAESTRA = """#!{python}
import os, socket, sys, time
open(os.environ["CALLS"], "a").write("palaestra " + " ".join(sys.argv[1:]) + "\\n")
assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
if "--head" in sys.argv:
    with socket.create_server((sys.argv[sys.argv.index("--host") + 1], int(sys.argv[sys.argv.index("--port") + 1]))):
        time.sleep(60)
elif sys.argv[1] == "worker":
    time.sleep(60)
else:
    wanted = int(os.environ["SLURM_NNODES"]) - 1
    while open(os.environ["CALLS"]).read().count("\\npalaestra worker --address") < wanted:
        time.sleep(0.01)
"""


@pytest.fixture
def batch(tmp_path, monkeypatch):
    """Run a script of the page as SLURM would, with stubs in PATH. Returns the result and the recorded calls."""
    stubs, calls = tmp_path / "stubs", tmp_path / "calls"
    stubs.mkdir()
    calls.touch()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").write_text(f'PATH="{stubs}:{Path(sys.executable).parent}:$PATH"\n')

    def run(name, nodes, *words, more_stubs=None):
        for stub, text in {"srun": SRUN, "scontrol": SCONTROL, **(more_stubs or {})}.items():
            (stubs / stub).write_text(text)
            (stubs / stub).chmod(0o755)
        script = tmp_path / name
        script.write_text(FILES[name])
        job = {"SLURM_JOB_ID": str(free_port() - 20000), "SLURM_NNODES": str(nodes), "SLURM_CPUS_PER_TASK": "1"}
        own = {"SLURM_JOB_NODELIST": "node[1-3]", "CALLS": str(calls), "PALAESTRA_RUNS_DIR": str(tmp_path / "runs")}
        done = subprocess.run(
            ["bash", str(script), *words],
            cwd=tmp_path,
            env={**os.environ, **job, **own, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=200,
        )
        return done, calls.read_text().splitlines()

    return run


def free_port() -> int:
    """Between 20,000 and 32,767, where the scripts put their ports and the kernel does not."""
    for port in range(20000 + os.getpid() % 10000, 32768):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("no free port")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_batch_script_parses_and_asks_for_what_it_uses(name, tmp_path):
    script = tmp_path / name
    script.write_text(FILES[name])
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    options = re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", FILES[name], re.MULTILINE)
    assert len(options) == FILES[name].count("#SBATCH")
    assert {"nodes", "ntasks-per-node", "cpus-per-task", "time", "output"} <= set(dict(options))
    assert dict(options)["ntasks-per-node"] == "1"


@pytest.mark.slow
def test_train_sbatch_trains_two_nodes_as_one_group(batch, tmp_path):
    done, calls = batch("train.sbatch", 2, *PIECES, "loggers.tensorboard=false", "--quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(calls) == 1
    run = RunStore(tmp_path / "runs").named("slurm")
    assert run is not None
    digests = {re.findall(r"sha256=(\w+)", run.log_file(rank).read_text())[-1] for rank in (0, 1)}
    assert len(digests) == 1


def test_ray_sbatch_starts_head_workers_and_command_in_order(batch):
    stubs = {"hostname": HOSTNAME, "palaestra": PALAESTRA.format(python=sys.executable)}
    words = ["sweep", "cartpole", "ppo.gamma=0.98,0.99", "executor=ray"]
    done, calls = batch("ray.sbatch", 3, *words, more_stubs=stubs)
    assert done.returncode == 0, done.stderr
    ours = [shlex.split(call)[1:] for call in calls if call.startswith("palaestra ")]
    assert ours[0][:4] == ["worker", "--head", "--host", "127.0.0.1"]
    address = f"127.0.0.1:{ours[0][5]}"
    command = [*words, f"cluster.address={address}"]
    assert sorted(ours[1:]) == sorted([*[["worker", "--address", address, "--cpus", "1"]] * 2, command])
    for call in ours:
        if call[0] == "worker":
            load_verb("worker").parser().parse(call[1:])
    spread = [call for call in calls if call.startswith("srun") and "--address" in call]
    assert "--exclude=127.0.0.1" in spread[0]
    assert "--ntasks=2" in spread[0]


def documents(name):
    return list(yaml.safe_load_all(FILES[name]))


def containers(value):
    """Every container of a manifest, however deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "containers":
                yield from inner
            yield from containers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from containers(inner)


@pytest.mark.parametrize("name", ["training.yaml", "cluster.yaml", "sweep.yaml"])
def test_every_container_has_our_image_and_limits_and_its_volumes_exist(name):
    for document in documents(name):
        assert {"apiVersion", "kind", "metadata", "spec"} == set(document)
        for container in containers(document):
            assert container["image"] == "registry.example/palaestra:0.1.0"
            assert "memory" in container["resources"]["limits"]
        for pod in pods(document):
            names = {volume["name"] for volume in pod.get("volumes", [])}
            mounted = {mount["name"] for c in pod["containers"] for mount in c.get("volumeMounts", [])}
            assert names == mounted


def pods(value):
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for inner in value.values():
            yield from pods(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from pods(inner)


@pytest.mark.parametrize(("name", "path"), [("cluster.yaml", ["spec"]), ("sweep.yaml", ["spec", "rayClusterSpec"])])
def test_a_ray_cluster_has_a_token_and_the_ray_of_the_constraints(name, path):
    (spec,) = documents(name)
    assert spec["apiVersion"] == "ray.io/v1"
    for key in path:
        spec = spec[key]
    assert set(spec) == {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"}
    assert spec["authOptions"] == {"mode": "token"}
    assert f"\nray=={spec['rayVersion']}\n" in CONSTRAINTS
    assert set(spec["headGroupSpec"]) == {"rayStartParams", "template"}
    for group in spec["workerGroupSpecs"]:
        assert set(group) == {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_the_job_of_torchrun_is_indexed_and_finds_its_first_pod():
    service, claim, job = documents("training.yaml")
    pod = job["spec"]["template"]["spec"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    assert service["spec"]["selector"] == job["spec"]["template"]["metadata"]["labels"]
    assert pod["subdomain"] == service["metadata"]["name"]
    name = job["metadata"]["name"]
    (script,) = pod["containers"][0]["args"]
    assert f"--master-addr {name}-0.{pod['subdomain']} " in script
    assert "--nnodes 2" in script
    assert pod["volumes"][1]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert subprocess.run(["bash", "-n", "-c", script], check=False).returncode == 0


def test_commands_inside_the_files_are_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_RUNS_DIR", str(tmp_path / "runs"))
    (job,) = documents("sweep.yaml")
    sweep = shlex.split(job["spec"]["entrypoint"])
    assert sweep[:2] == ["palaestra", "sweep"]
    assert main([*sweep[1:], "--dry-run"]) == 0
    _, _, training = documents("training.yaml")
    script = training["spec"]["template"]["spec"]["containers"][0]["args"][0]
    assert main([*shlex.split(script.partition("-m palaestra ")[2]), "--dry-run"]) == 0
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(FILES["palaestra.service"])
    assert main([*shlex.split(unit["Service"]["ExecStart"])[1:], "--dry-run"]) == 0


def test_the_image_installs_what_the_manifests_need():
    text = FILES["Dockerfile"]
    assert text.startswith("FROM python:3.11")
    assert "USER 1000" in text
    assert "[cluster,sweep]" in text
    assert '"ray[default]"' in text
    if shutil.which("hadolint"):
        done = subprocess.run(["hadolint", "-"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
