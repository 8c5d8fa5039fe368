import pytest

from palaestra.client.calls import Client, connect
from palaestra.client.events import follow_events
from palaestra.core.errors import NotFound, UsageError


def test_events_are_yielded_one_by_one(served):
    with connect(served) as client:
        listing = client.listing()
        messages = follow_events(client.connection, listing["sequence"], listing["boot"], seconds=20)
        assert next(messages)["type"] == "hello"
        run = client.submit("cartpole", {"total_steps": 128})
        reports = next(message for message in messages if message["type"] == "run")
        assert reports["run"]["id"] == run["id"]
        messages.close()
        client.stop(run["id"], 0)


def test_it_ends_after_the_timeout(served):
    with connect(served) as client:
        assert [message["type"] for message in follow_events(client.connection, seconds=0.3)][:1] == ["hello"]


def test_a_wrong_token_is_reported(served):
    with connect(served) as client, Client(client.url, "wrong") as anonymous:
        with pytest.raises(UsageError, match="does not accept this token"):
            list(follow_events(anonymous.connection))


def test_an_unreachable_daemon_is_reported():
    with pytest.raises(NotFound, match="Cannot follow the events"):
        list(follow_events(Client("http://127.0.0.1:9", "x").connection))
