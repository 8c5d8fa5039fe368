from dataclasses import replace

import pytest

from palaestra.core.errors import NotFound, UsageError
from palaestra.core.run import RunRequest, RunState
from palaestra.runner.find_run import find_run
from palaestra.runs.documents import read_config, write_config
from palaestra.runs.status import read_written_record, write_record
from palaestra.runs.store import RunStore


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "runs")


@pytest.fixture
def find(store, small_config):
    """Look for a run called `small`, with the given settings changed."""

    def check(name="small", must_exist=False, accept=(), **changes):
        request = RunRequest(kind="native", recipe="", config={}, name=name)
        config = small_config(**changes)
        return find_run(store, request, config, must_exist=must_exist, accept_changes=frozenset(accept))

    return check


@pytest.fixture
def made(store, small_config):
    request = RunRequest(kind="native", recipe="", config={}, name="small")
    return store.create(request, small_config().model_dump(mode="json"), total_steps=128)


def test_a_name_nobody_has_is_a_new_run(find):
    assert find() is None
    assert find(name="") is None


def test_a_name_nobody_has_cannot_be_resumed(find):
    with pytest.raises(NotFound, match="No run named 'small'"):
        find(must_exist=True)


def test_the_same_configuration_finds_its_run(find, made):
    found = find()
    assert (found.directory, found.changes, found.is_done) == (made, [], False)


def test_a_network_that_follows_from_the_observations_is_the_one_the_run_began_with(find, made):
    stored = read_config(made)
    write_config(made, {**stored, "policy": {**stored["policy"], "graph": "mlp"}})
    assert find().config.policy.graph == "mlp"
    write_config(made, {**stored, "policy": {**stored["policy"], "graph": "memory"}})
    with pytest.raises(UsageError, match="memory"):
        find()


def test_every_difference_is_refused_at_once_with_both_values(find, made):
    with pytest.raises(UsageError) as refused:
        find(seed=7, total_steps=256)
    text = str(refused.value)
    assert all(part in text for part in ("seed", "7", "total_steps", "128", "256"))
    assert "--override seed --override total_steps" in text


def test_only_what_was_accepted_by_name_may_differ(find, made):
    found = find(seed=7, accept=["seed"])
    assert [change.key_path for change in found.changes] == ["seed"]
    with pytest.raises(UsageError, match="total_steps"):
        find(seed=7, total_steps=256, accept=["seed"])


def test_a_section_accepted_by_name_covers_its_keys_and_no_others(find, made):
    ppo = {"env_count": 2, "horizon": 16, "minibatch_size": 16, "update_epochs": 3}
    assert [change.key_path for change in find(ppo=ppo, accept=["ppo"]).changes] == ["ppo.update_epochs"]
    with pytest.raises(UsageError):
        find(ppo=ppo, accept=["pp"])


def test_settings_of_loggers_and_checkpoints_may_differ(find, made):
    found = find(loggers={"console": False, "tensorboard": True}, checkpoints={"save_interval": 1, "keep": 9})
    assert {change.key_path for change in found.changes} == {"loggers.tensorboard", "checkpoints.keep"}


def test_a_run_with_the_old_section_sinks_has_no_difference(find, made):
    made.config_file.write_text(made.config_file.read_text().replace("loggers:", "sinks:"))
    assert find().changes == []


@pytest.mark.parametrize(
    ("state", "step", "is_done"),
    [(RunState.FINISHED, 128, True), (RunState.CANCELLED, 64, False), (RunState.FAILED, 128, False)],
)
def test_a_run_is_done_when_it_has_finished_all_requested_steps(find, made, state, step, is_done):
    write_record(made, replace(read_written_record(made), state=state, agent_step=step))
    assert find().is_done is is_done
    assert find(total_steps=4096, accept=["total_steps"]).is_done is False


def test_a_run_from_before_a_key_existed_goes_on_with_its_default(find, made):
    stored = read_config(made)
    del stored["ppo"]["vtrace"]
    write_config(made, stored)
    assert find().changes == []


def test_a_key_that_is_gone_by_now_is_named(find, made):
    write_config(made, {**read_config(made), "no_longer": 1})
    with pytest.raises(UsageError, match="no_longer: 1 -> "):
        find()


def made_with(made, engine):
    write_config(made, {**read_config(made), "engine": engine})


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_auto_is_no_request_for_another_engine_than_the_run_was_made_with(find, made, engine):
    made_with(made, engine)
    found = find()
    assert (found.config.engine, found.changes) == (engine, [])


def test_a_run_from_before_there_was_a_choice_of_engines_stays_with_torch(find, made):
    stored = read_config(made)
    del stored["engine"]
    write_config(made, stored)
    found = find()
    assert (found.config.engine, found.changes) == ("torch", [])


def test_another_engine_is_refused_with_how_to_keep_the_one_it_has(find, made):
    made_with(made, "torch")
    with pytest.raises(UsageError, match="engine: 'torch' -> 'native'") as refused:
        find(engine="native")
    assert "--override engine" in refused.value.hint
    assert "Without engine=" in refused.value.hint
    assert find(engine="native", accept=["engine"]).config.engine == "native"


def test_an_unknown_engine_is_not_stored(find, made):
    made_with(made, "steam")
    with pytest.raises(UsageError, match="engine: 'steam' -> 'auto'"):
        find()
