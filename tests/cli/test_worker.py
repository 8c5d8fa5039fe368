import pytest

from palaestra.cli import worker
from palaestra.cli.main import main
from palaestra.cluster.node import ClusterLeft
from palaestra.cluster.token import Token


@pytest.fixture
def up(monkeypatch):
    """A cluster that comes up at once, and a Ctrl-C after that."""
    orders = []

    def serve(order, on_up, note, wait):
        orders.append(order)
        on_up()
        raise ClusterLeft(2)

    monkeypatch.setattr(worker, "serve", serve)
    monkeypatch.setattr(worker, "head_token", lambda: Token("/home/me/.ray/auth_token"))
    return orders


def test_a_head_says_how_it_is_joined_and_used_in_one_line(up, capsys):
    assert main(["worker", "--head", "--host", "10.0.0.5", "--cpus", "4"]) == 130
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "palaestra worker --address 10.0.0.5:6379" in out
    assert "palaestra eval RUN remote=true cluster.address=10.0.0.5:6379" in out
    assert "/home/me/.ray/auth_token" in out
    assert up[0].cpus == 4


def test_a_head_of_this_machine_alone_does_not_ask_others_to_join(up, capsys):
    main(["worker", "--head"])
    out = capsys.readouterr().out
    assert "only this machine" in out
    assert "--address" not in out


def test_a_machine_may_join_with_nothing_to_offer(up, capsys):
    assert main(["worker", "--address", "head:6379", "--cpus", "0"]) == 130
    assert up[0].cpus == 0
    assert not up[0].is_head
    assert "has left the cluster at head:6379" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--head", "--address", "h:1"],
        ["--address", "auto"],
        ["--head", "--cpus", "-1"],
        ["--hed"],
        ["--address", "h:1", "--host", "192.0.2.1"],
        ["--address", "h:1", "--host", "eth0"],
    ],
)
def test_what_cannot_be_is_refused_with_exit_code_2(words, capsys):
    assert main(["worker", *words]) == 2
    assert capsys.readouterr().err.startswith("palaestra: ")
