import hashlib

import pytest

from palaestra.checkpoints.names import model_name, trainer_state_name
from palaestra.checkpoints.sidecar import decode
from palaestra.cluster.delivery import Deliveries, packed
from palaestra.core.errors import DamagedFile, NotFound
from palaestra.evaluation.plans import weights_of


class Store:
    """As Ray's: everything that was put, in order."""

    def __init__(self):
        self.held = []

    def put(self, data):
        self.held.append(data)
        return f"reference {len(self.held)}"


@pytest.fixture
def saved(trained_run):
    return trained_run.save(epoch=4, seed=1)


def test_weights_are_put_once_for_each_sha256(trained_run, saved):
    store = Store()
    deliveries = Deliveries(store.put)
    first = deliveries.take(saved.path, weights_of(saved))
    again = deliveries.take(saved.path, weights_of(saved))
    twin = trained_run.save(epoch=5, seed=1)  # the same weights in another checkpoint
    of_twin = deliveries.take(twin.path, weights_of(twin))
    assert first == again
    assert of_twin.weights == first.weights
    assert of_twin.sidecar != first.sidecar
    assert [hashlib.sha256(data).hexdigest() for data in store.held] == [weights_of(saved)]


def test_what_nobody_plays_is_let_go_when_there_is_no_room(trained_run, saved):
    store = Store()
    deliveries = Deliveries(store.put, bytes_kept=0)
    played = deliveries.take(saved.path, weights_of(saved))
    other = trained_run.save(epoch=5, seed=2)
    idle = deliveries.take(other.path, weights_of(other))
    deliveries.give_back(idle)
    assert deliveries.take(saved.path, weights_of(saved)).weights == played.weights
    assert deliveries.take(other.path, weights_of(other)).weights != idle.weights


def test_the_sidecar_that_travels_names_the_weights_alone_and_no_score(trained_run, saved):
    assert trained_run.save(epoch=4, seed=1).path == saved.path
    sidecar, weights, policy = packed(saved.path, weights_of(saved))
    read = decode(sidecar, "what travels")
    assert set(read.files) == {model_name(4)}
    assert trainer_state_name(4) not in read.files
    assert (read.score, read.metrics) == (None, {})
    assert hashlib.sha256(weights).hexdigest() == weights_of(saved)
    assert policy == saved.policy


def test_other_weights_than_were_asked_for_are_not_sent(saved):
    with pytest.raises(NotFound, match="other weights"):
        packed(saved.path, "0" * 64)


def test_a_damaged_checkpoint_is_not_sent(saved):
    path = saved.path.with_suffix(".safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(DamagedFile, match="sha256"):
        packed(saved.path, weights_of(saved))
