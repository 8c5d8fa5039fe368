"""The documents followed word by word on fresh machines: every marked command, in order."""

from __future__ import annotations

import pytest

from tests.machines.machines import REPOSITORY, Source
from tests.machines.pages import end_background, follow, read_steps, with_addresses

PAGES = ["docs/clusters/ssh.md", "docs/clusters/spot.md", "docs/distributed.md", "docs/cluster.md"]
PAGE = """
Not run:
```console
$ rm -rf everything
```
<!-- machine: head, background -->
```console
$ palaestra worker --head --host 10.0.0.1
A cluster is up at 10.0.0.1:6379
```
<!-- machine: each -->
```text
torchrun --node-rank 0 --master-addr 10.0.0.1 # leads
torchrun --node-rank 1 \\
    --master-addr 10.0.0.1
```
"""


def test_only_marked_commands_are_read_with_their_machines():
    steps = [(step.machine, step.note, " ".join(step.command)) for step in read_steps(PAGE)]
    assert steps == [
        ("head", "background", "palaestra worker --head --host 10.0.0.1"),
        ("head", "background", "torchrun --node-rank 0 --master-addr 10.0.0.1"),
        ("worker", "", "torchrun --node-rank 1 --master-addr 10.0.0.1"),
    ]


@pytest.mark.machines
@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed_word_by_word(network, row, page):
    root = Source.from_environment().root
    file = root / page if (root / page).exists() else REPOSITORY / page
    if not read_steps(file.read_text()):
        pytest.skip(f"{page} has no marker like <!-- machine: head --> yet")
    line = row(f"{page} followed word by word")
    machines = {name: network.add(name) for name in ("head", "worker")}
    assert with_addresses(("10.0.0.1:6379",), machines) == [f"{machines['head'].address}:6379"]
    if "my-run" in file.read_text():
        sizes = ["ppo.env_count=2", "ppo.horizon=16", "ppo.minibatch_size=16", "--quiet"]
        done = machines["head"].run(["palaestra", "train", "cartpole", "run=my-run", "total_steps=640", *sizes])
        assert done.returncode == 0, done.stderr
    end_background(follow(file, machines))
    line.note = f"{len(read_steps(file.read_text()))} commands"
