"""Training over two machines with torchrun: join, equal weights, and every fault ends or heals within its limit."""

from __future__ import annotations

import re
import shutil
import signal
import time

import pytest

from tests.machines.cluster import head_address, start_cluster
from tests.machines.machines import MachineError, reason_no_clock_offset, wait_until
from tests.machines.training import (
    PORT,
    STEPS_PER_EPOCH,
    TRAINING,
    are_equal,
    elastic_torchrun,
    final_digest,
    lost_checkpoints,
    message,
    repeated_epochs,
    replace_keys,
    run_of,
    saved_epochs,
    seconds_until_ended,
    torchrun,
    wait_for_epoch,
    weights,
)

pytestmark = pytest.mark.machines

EPOCHS = 300  # of the reference; the rows stop long before
JOIN_LIMIT = 60.0  # start torch twice on two cores, join, train and end: 4 to 8 s when nothing else runs
DELAYED_JOIN_LIMIT = 120.0  # the same over a link with 200 ms: 49 s
PEER_LIMIT = 30.0  # distributed.peer_timeout_seconds
SLACK = 10.0  # torchrun looks after its processes and its own store for some seconds
ENDLESS = "total_steps=1e9"


@pytest.fixture(scope="module")
def reference(shared_network):
    """`--nproc 2` on one machine: SHA-256 of the weights by epoch."""
    machine = shared_network.add("alone")
    command = ["palaestra", "train", *TRAINING, "run=pair", f"total_steps={EPOCHS * STEPS_PER_EPOCH}", "--nproc", "2"]
    done = machine.run(command, seconds=300)
    assert done.returncode == 0, done.stderr
    return weights(machine)


@pytest.fixture
def pair(network):
    return [network.add("head"), network.add("worker")]


@pytest.fixture
def at_work(pair):
    """Two machines that train and have saved three checkpoints."""
    jobs = torchrun(pair, ENDLESS)
    wait_for_epoch(pair[0], 3, jobs)
    return pair, jobs


def continue_by_same_command(pair, reference):
    """The run goes on from its newest checkpoint, exactly; stopped by SIGTERM after five more."""
    goal = max(saved_epochs(pair[0])) + 5
    jobs = torchrun(pair, ENDLESS)
    wait_for_epoch(pair[0], goal, jobs)
    for machine in pair:
        for process in machine.processes("-u", "palaestra", "train"):
            process.terminate()
    for job in jobs:
        job.wait()
    return are_equal(pair[0], reference)


def record_end(row, jobs, start, pair, reference):
    row.seconds = seconds_until_ended(jobs, start, row.limit)
    row.lost, row.doubled = lost_checkpoints(pair[0]), repeated_epochs(pair[0])
    row.equal = are_equal(pair[0], reference)
    row.note = " / ".join(dict.fromkeys(message(job) for job in jobs))


@pytest.mark.parametrize("situation", ["resolves", "unresolved", "loopback", "IPv6"])
def test_two_machines_join_and_end_with_equal_weights(network, row, reference, situation):
    line = row(f"join, host name {situation}" if situation != "IPv6" else "join over IPv6", JOIN_LIMIT)
    host_name = situation if situation != "IPv6" else "unresolved"
    pair = [network.add(name, host_name=host_name) for name in ("head", "worker")]
    start = time.monotonic()
    address = pair[0].address6 if situation == "IPv6" else ""
    jobs = torchrun(pair, f"total_steps={30 * STEPS_PER_EPOCH}", address=address)
    line.seconds = seconds_until_ended(jobs, start, JOIN_LIMIT)
    assert [job.wait() for job in jobs] == [0, 0], [message(job) for job in jobs]
    assert final_digest(pair[0], 0) == final_digest(pair[1], 1)
    assert not list(pair[1].runs.glob("*/checkpoints/*"))
    line.lost, line.equal = lost_checkpoints(pair[0]), are_equal(pair[0], reference)
    line.check()


def test_a_run_resumes_with_an_empty_runs_folder_on_the_second_machine(pair, row, reference):
    line = row("resume, second machine's runs folder empty", JOIN_LIMIT)
    jobs = torchrun(pair, f"total_steps={10 * STEPS_PER_EPOCH}")
    assert [job.wait(180) for job in jobs] == [0, 0], [message(job) for job in jobs]
    shutil.rmtree(pair[1].runs, ignore_errors=True)
    start = time.monotonic()
    jobs = torchrun(pair, f"total_steps={20 * STEPS_PER_EPOCH}", "--resume", "--override", "total_steps")
    line.seconds = seconds_until_ended(jobs, start, JOIN_LIMIT)
    assert [job.wait() for job in jobs] == [0, 0], [message(job) for job in jobs]
    assert max(saved_epochs(pair[0])) == 20
    line.lost, line.doubled = lost_checkpoints(pair[0]), repeated_epochs(pair[0])
    line.equal = are_equal(pair[0], reference)
    line.check()


@pytest.mark.parametrize("which", ["worker's rank", "leader's rank", "worker's torchrun", "leader's torchrun"])
def test_a_killed_process_ends_all_and_the_same_command_continues(at_work, row, reference, which):
    line = row(f"kill -9 of the {which}", PEER_LIMIT)
    pair, jobs = at_work
    machine = pair[0] if which.startswith("leader") else pair[1]
    arguments = ("bin/torchrun",) if which.endswith("torchrun") else ("-u", "palaestra", "train")
    start = time.monotonic()
    machine.processes(*arguments)[0].kill()
    line.seconds = seconds_until_ended(jobs, start, PEER_LIMIT)
    assert [other.processes("-u", "palaestra", "train") for other in pair] == [[], []]
    line.lost, line.doubled = lost_checkpoints(pair[0]), repeated_epochs(pair[0])
    line.note = " / ".join(dict.fromkeys(message(job) for job in jobs))
    line.equal = continue_by_same_command(pair, reference)
    line.check()


def test_a_killed_machine_ends_the_others_and_training_continues_after_its_reboot(at_work, row, reference):
    line = row("kill of a machine", PEER_LIMIT + SLACK)
    pair, jobs = at_work
    start = time.monotonic()
    pair[1].kill()
    record_end(line, jobs[:1], start, pair, reference)
    pair[1].reboot()
    line.equal = continue_by_same_command(pair, reference)
    line.check()


def test_a_killed_leading_machine_ends_the_other(at_work, row, reference):
    line = row("kill of the leader's machine", PEER_LIMIT + SLACK)
    pair, jobs = at_work
    start = time.monotonic()
    pair[0].kill()
    record_end(line, jobs[1:], start, pair, reference)
    pair[0].reboot()
    line.equal = continue_by_same_command(pair, reference)
    line.check()


def test_a_stopped_rank_ends_the_others(at_work, row, reference):
    line = row("SIGSTOP of a rank", PEER_LIMIT + SLACK)
    pair, jobs = at_work
    start = time.monotonic()
    (stopped,) = pair[1].processes("-u", "palaestra", "train")
    stopped.send_signal(signal.SIGSTOP)
    record_end(line, jobs[:1], start, pair, reference)
    stopped.kill()
    line.check()


@pytest.mark.parametrize("unplug", [False, True])
def test_a_link_that_stays_down_ends_both_sides(at_work, row, reference, unplug):
    line = row("link down for good" + (" (unplugged)" if unplug else ""), PEER_LIMIT + SLACK)
    pair, jobs = at_work
    start = time.monotonic()
    pair[1].link_down(unplug=unplug)
    record_end(line, jobs, start, pair, reference)
    line.check()


def test_a_link_that_comes_back_after_ten_seconds_costs_nothing(at_work, row, reference):
    line = row("link down for 10 s", PEER_LIMIT)
    pair, jobs = at_work
    start = time.monotonic()
    pair[1].cut_for(10)
    before = max(saved_epochs(pair[0]))
    wait_for_epoch(pair[0], before + 3, jobs)
    line.seconds = time.monotonic() - start
    line.lost, line.doubled = lost_checkpoints(pair[0]), repeated_epochs(pair[0])
    line.equal = are_equal(pair[0], reference)
    line.check()


@pytest.mark.parametrize(("what", "milliseconds", "percent"), [("delay of 200 ms", 200, 0), ("loss of 5 %", 0, 5)])
def test_a_slow_link_slows_training_and_changes_nothing(at_work, row, reference, what, milliseconds, percent):
    line = row(what, 120.0)
    pair, jobs = at_work
    pair[1].delay(milliseconds)
    pair[1].loss(percent)
    before, start = max(saved_epochs(pair[0])), time.monotonic()
    wait_for_epoch(pair[0], before + 5, jobs)
    line.seconds = time.monotonic() - start
    line.lost, line.doubled = lost_checkpoints(pair[0]), repeated_epochs(pair[0])
    line.equal = are_equal(pair[0], reference)
    line.note = f"seconds for five updates and checkpoints; {len(jobs)} ranks went on"
    line.check()


def test_join_over_a_link_with_delay(pair, row, reference):
    line = row("join with a delay of 200 ms", DELAYED_JOIN_LIMIT)
    pair[1].delay(200)
    start = time.monotonic()
    jobs = torchrun(pair, f"total_steps={3 * STEPS_PER_EPOCH}")
    line.seconds = seconds_until_ended(jobs, start, 120)
    assert [job.wait() for job in jobs] == [0, 0], [message(job) for job in jobs]
    line.equal = are_equal(pair[0], reference)
    line.check()


def test_clocks_that_differ_by_an_hour_do_not_matter(pair, row, reference):
    line = row("clock of a machine an hour off (training)", JOIN_LIMIT)
    if reason := reason_no_clock_offset():
        pytest.skip(reason)
    pair[1].set_clock_offset(3600)
    start = time.monotonic()
    jobs = torchrun(pair, f"total_steps={10 * STEPS_PER_EPOCH}")
    line.seconds = seconds_until_ended(jobs, start, JOIN_LIMIT)
    assert [job.wait() for job in jobs] == [0, 0], [message(job) for job in jobs]
    line.equal = are_equal(pair[0], reference)
    line.check()


def test_other_code_on_a_machine_is_refused_by_name_on_both(network, row, tmp_path):
    line = row("other code on a machine (training)", JOIN_LIMIT)
    edited = network.source.copy(tmp_path / "edited", {"algorithms/advantages.py": lambda text: text + "\n# edited\n"})
    pair = [network.add("head"), network.add("worker", code=edited)]
    start = time.monotonic()
    jobs = torchrun(pair, f"total_steps={10 * STEPS_PER_EPOCH}")
    line.seconds = seconds_until_ended(jobs, start, JOIN_LIMIT)
    line.note = " / ".join(dict.fromkeys(message(job) for job in jobs))
    assert all(job.wait() != 0 for job in jobs)
    assert all("advantages.py" in job.out + job.err for job in jobs), line.note
    line.check()


def test_different_settings_are_refused_on_both_machines(pair, row):
    line = row("different settings on a machine", JOIN_LIMIT)
    start = time.monotonic()
    jobs = torchrun(pair, f"total_steps={10 * STEPS_PER_EPOCH}", own={"worker": ["ppo.gamma=0.5"]})
    line.seconds = seconds_until_ended(jobs, start, JOIN_LIMIT)
    line.note = " / ".join(dict.fromkeys(message(job) for job in jobs))
    assert all(job.wait() != 0 for job in jobs)
    assert all("ppo.gamma" in job.out + job.err for job in jobs), line.note
    line.check()


def rank_environment(rank, address, port=PORT):
    """As SLURM's srun would start a rank: without torchrun, which has its own opinion on addresses."""
    location = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
    return {**location, "MASTER_ADDR": address, "MASTER_PORT": str(port)}


def start_ranks(pair, *arguments, address="", port=PORT):
    command = ["palaestra", "train", *TRAINING, "run=pair", ENDLESS, *arguments]
    return [
        machine.start(command, rank_environment(rank, address or pair[0].address, port))
        for rank, machine in enumerate(pair)
    ]


def test_a_wrong_master_address_is_named_on_both_machines(pair, row):
    line = row("wrong master address", 30.0)
    start = time.monotonic()
    jobs = start_ranks(pair, "distributed.timeout_seconds=15", address="10.77.0.99")
    line.seconds = seconds_until_ended(jobs, start, 30)
    line.note = " / ".join(dict.fromkeys(message(job) for job in jobs))
    assert all(job.wait() != 0 for job in jobs)
    assert all("10.77.0.99" in message(job) for job in jobs), line.note
    line.check()


def test_a_port_that_is_taken_is_named_on_the_leader(pair, row):
    line = row("port taken", 40.0)
    pair[0].start(["python3", "-m", "http.server", str(PORT), "--bind", pair[0].address])
    wait_until(lambda: pair[0].processes("http.server"), "the other program")
    start = time.monotonic()
    jobs = start_ranks(pair, "distributed.timeout_seconds=20")
    line.seconds = seconds_until_ended(jobs, start, 40)
    line.note = " / ".join(dict.fromkeys(message(job) for job in jobs))
    assert all(job.wait() != 0 for job in jobs)
    assert str(PORT) in message(jobs[0]), line.note
    assert str(PORT) in message(jobs[1]), line.note
    line.check()


def test_an_interface_that_does_not_exist_is_refused_with_those_that_do(pair, row):
    line = row("interface that does not exist", JOIN_LIMIT)
    start = time.monotonic()
    jobs = torchrun(pair, ENDLESS, own={"worker": ["distributed.interface=eth7"]})
    line.seconds = seconds_until_ended(jobs, start, JOIN_LIMIT)
    line.note = " / ".join(dict.fromkeys(message(job) for job in jobs))
    assert "eth7" in message(jobs[1]), line.note
    assert "eth0" in jobs[1].out + jobs[1].err, line.note
    assert "eth7" in message(jobs[0]) or "worker" in message(jobs[0]), line.note
    line.check()


def test_a_full_disk_on_the_leader_is_named_and_older_checkpoints_stay_whole(network, row, reference):
    line = row("full disk on the leader", PEER_LIMIT + SLACK)
    pair = [network.add("head", disk_megabytes=60), network.add("worker")]
    jobs = torchrun(pair, ENDLESS)
    wait_for_epoch(pair[0], 3, jobs)
    start = time.monotonic()
    pair[0].fill_disk()
    wait_until(lambda: "No space left" in jobs[0].out + jobs[0].err, "a warning", line.limit + 60)
    line.seconds = time.monotonic() - start
    line.note = message(jobs[0])
    assert not any(job.has_ended for job in jobs)
    line.lost, line.equal = lost_checkpoints(pair[0]), are_equal(pair[0], reference)
    line.check()


def test_a_full_disk_on_a_follower_does_not_stop_training(network, row, reference):
    line = row("full disk on a follower", JOIN_LIMIT)
    pair = [network.add("head"), network.add("worker", disk_megabytes=60)]
    jobs = torchrun(pair, ENDLESS)
    wait_for_epoch(pair[0], 3, jobs)
    start, before = time.monotonic(), max(saved_epochs(pair[0]))
    pair[1].fill_disk()
    wait_for_epoch(pair[0], before + 10, jobs)
    line.seconds = time.monotonic() - start
    line.lost, line.equal = lost_checkpoints(pair[0]), are_equal(pair[0], reference)
    line.check()


def test_torchrun_restarts_a_killed_rank_from_the_last_checkpoint(pair, row, reference):
    line = row("kill -9 of a rank with torchrun --max-restarts 1", 3 * JOIN_LIMIT)
    jobs = torchrun(pair, ENDLESS, options=["--max-restarts", "1"])
    wait_for_epoch(pair[0], 3, jobs)
    start = time.monotonic()
    pair[1].processes("-u", "palaestra", "train")[0].kill()
    wait_until(lambda: not pair[0].processes("-u", "palaestra", "train"), "the end of the leader's rank", 120)
    before = max(saved_epochs(pair[0]))
    wait_for_epoch(pair[0], before + 5, jobs)
    line.seconds = time.monotonic() - start
    line.lost, line.doubled = lost_checkpoints(pair[0]), repeated_epochs(pair[0])
    line.equal = are_equal(pair[0], reference)
    line.check()


@pytest.mark.parametrize("which", ["follower", "leader"])
def test_ray_restarts_the_ranks_on_another_machine(network, row, reference, which):
    line = row(f"executor=ray, distributed.restarts: the {which}'s machine killed, a third one takes its place", 90.0)
    head, *workers = (network.add(name) for name in ("head", "first", "second", "third"))
    start_cluster(head, workers)
    settings = ["run=pair", ENDLESS, "executor=ray", "nproc=2", "distributed.restarts=2"]
    arguments = replace_keys(TRAINING, [*settings, f"cluster.address={head_address(head)}"])
    job = head.start(["palaestra", "train", *arguments])
    wait_for_epoch(head, 3, [job])
    leader, follower = (machine_of_rank(rank, workers) for rank in (0, 1))
    lost = leader if which == "leader" else follower
    start = time.monotonic()
    lost.kill()
    wait_until(lambda: "Restarting from checkpoint" in job.err or job.has_ended, "the restart", line.limit)
    line.note = next(text for text in job.err.splitlines() if "Restarting from checkpoint" in text)[:300]
    last = int(re.findall(r"Restarting from checkpoint (\d+)", line.note)[0])
    wait_for_epoch(head, last + 5, [job])
    line.seconds = time.monotonic() - start
    assert lost not in {machine_of_rank(rank, [one for one in workers if one is not lost]) for rank in (0, 1)}
    job.send(signal.SIGTERM)  # the journal arrives before the checkpoints that it names: compare when all is here
    assert job.wait() == 143
    line.lost, line.doubled = lost_checkpoints(head), repeated_epochs(head)
    line.equal = are_equal(head, reference)
    line.check()


def machine_of_rank(rank, machines):
    """The machine on which a rank placed by Ray trains."""
    (found,) = [one for one in machines for process in ranks_on(one) if process.environ()["RANK"] == str(rank)]
    return found


def ranks_on(machine):
    """Processes of ranks that an actor of Ray has started."""
    return [process for process in machine.processes("-m", "palaestra.runner") if "RANK" in process.environ()]


def test_torchrun_restarts_the_ranks_on_a_spare_machine(network, row, reference):
    line = row("torchrun --nnodes 2 with a spare machine: a machine killed", 90.0)
    machines = [network.add(name) for name in ("head", "second", "spare")]
    jobs = elastic_torchrun(machines, ENDLESS)
    wait_for_epoch(machines[0], 3, jobs)
    at_work = [one for one in machines if one.processes("-u", "palaestra", "train")]
    assert len(at_work) == 2
    start, before = time.monotonic(), max(saved_epochs(machines[0]))
    lost = next(one for one in at_work if one is not machines[0])
    lost.kill()
    wait_for_epoch(machines[0], before + 5, [job for one, job in zip(machines, jobs, strict=True) if one is not lost])
    line.seconds = time.monotonic() - start
    line.lost, line.doubled = lost_checkpoints(machines[0]), repeated_epochs(machines[0])
    line.equal = are_equal(machines[0], reference)
    line.check()


def test_a_reference_of_another_seed_would_be_observed(pair, reference):
    """The comparison itself: weights of another seed are not equal."""
    jobs = torchrun(pair, f"total_steps={3 * STEPS_PER_EPOCH}", "seed=4")
    assert [job.wait(180) for job in jobs] == [0, 0]
    assert not are_equal(pair[0], reference)
    assert run_of(pair[0]) is not None
    with pytest.raises(MachineError):
        wait_for_epoch(pair[0], 100, torchrun(pair, "run=other", "ppo.gamma=nonsense"))
