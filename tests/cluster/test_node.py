import signal
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.cluster.address import Address
from palaestra.cluster.node import NodeOrder, read_order
from palaestra.core.errors import UsageError

NOTHING = {"head": False, "address": "", "host": "", "port": 6379, "cpus": None, "gpus": None}


def order_of(**given):
    return read_order(**{**NOTHING, **given})


def test_a_head_stays_on_this_machine_unless_it_is_told_otherwise():
    assert order_of(head=True) == NodeOrder(Address("127.0.0.1", 6379), is_head=True)
    assert order_of(head=True, host="10.0.0.5", port=7000).address == Address("10.0.0.5", 7000)
    assert order_of(head=True, host="::1").address == Address("::1", 6379)


def test_joining_takes_the_address_of_the_head():
    assert order_of(address="head:6379", cpus=0) == NodeOrder(Address("head", 6379), is_head=False, cpus=0)


@pytest.mark.parametrize(
    "given",
    [{}, {"head": True, "address": "head:6379"}, {"address": "ray://head:1"}, {"head": True, "host": "http://x"}],
)
def test_neither_both_and_odd_addresses_are_refused(given):
    with pytest.raises(UsageError):
        order_of(**given)


def test_the_words_for_ray_say_where_how_much_and_stay_in_the_foreground():
    folder = Path("/somewhere")
    head = order_of(head=True, cpus=2, gpus=0).words(folder)
    assert {"--head", "--port=6379", "--node-ip-address=127.0.0.1", "--num-cpus=2", "--num-gpus=0"} <= set(head)
    joined = order_of(address="127.0.0.1:6379").words(folder)
    assert "--address=127.0.0.1:6379" in joined
    assert not any(word.startswith(("--head", "--num-cpus")) for word in joined)
    for words in (head, joined):
        assert {"--block", "--temp-dir=/somewhere", "--disable-usage-stats"} <= set(words)


def test_a_worker_is_known_by_its_address_on_the_route_to_the_head_unless_it_is_given_one():
    routed = order_of(address="127.0.0.1:6379")
    assert (routed.own_host(), "--node-ip-address=127.0.0.1" in routed.words(Path("/x"))) == ("127.0.0.1", True)
    given = order_of(address="127.0.0.1:6379", host="127.0.0.3")
    assert "--node-ip-address=127.0.0.3" in given.words(Path("/x"))


@pytest.mark.parametrize(("host", "problem"), [("192.0.2.1", "not an address of this machine"), ("eth0", "not an IP")])
def test_a_worker_cannot_bind_what_is_not_its_own(host, problem):
    with pytest.raises(UsageError, match=problem):
        order_of(address="127.0.0.1:6379", host=host)


def test_the_module_is_rays_own_command():
    words = [sys.executable, "-m", "palaestra.cluster.node", "--help"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert "--block" in process.stdout.read()
        assert process.wait(60) == 0


def test_the_module_ends_when_nobody_holds_its_standard_input():
    words = [sys.executable, "-m", "palaestra.cluster.node", "--help"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        assert process.wait(60) == -signal.SIGTERM
