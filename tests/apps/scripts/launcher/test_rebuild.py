import types

import gymnasium
import pytest
import torch

from palaestra.apps.scripts.launcher import rebuild
from palaestra.apps.scripts.launcher.snapshot import collect_tensors
from palaestra.apps.scripts.launcher.weights import Mismatch


def test_arguments_are_as_they_were_but_nothing_is_recorded_or_tracked():
    saved = {"env_id": "A-v0", "capture_video": True, "track": True, "gamma": 0.9}
    again = rebuild.restore_arguments(saved, "B-v0")
    assert vars(again) == {"env_id": "B-v0", "capture_video": False, "track": False, "gamma": 0.9}


def test_a_network_is_made_again_with_its_weights(definitions, scripts):
    script = definitions(scripts / "dqn.py", {"q_network": "QNetwork"}, env_id="CartPole-v1", n_atoms=11)
    before = script.QNetwork(script.envs, 11)
    tensors, classes = collect_tensors({"q_network": before, "target_network": script.QNetwork(script.envs, 11)})
    made, problems = rebuild.make_networks(script, classes, tensors)
    assert (list(made), problems) == (["q_network"], [])
    assert all(torch.equal(made["q_network"].state_dict()[name], value) for name, value in before.state_dict().items())
    assert not made["q_network"].training
    script.envs.close()


def test_without_the_scripts_own_words_arguments_are_found_by_their_names(definitions, scripts):
    script = definitions(scripts / "dqn.py", {}, env_id="CartPole-v1", n_atoms=5)
    tensors, classes = collect_tensors({"q_network": script.QNetwork(script.envs, 5)})
    assert rebuild.make_networks(script, classes, tensors)[0]["q_network"].n_atoms == 5
    script.args.n_atoms = 7
    made, problems = rebuild.make_networks(script, classes, tensors)
    assert made == {}
    assert "(QNetwork) differs" in problems[0]
    script.envs.close()


def test_a_class_that_is_gone_is_named(definitions, scripts):
    script = definitions(scripts / "dqn.py", {}, env_id="CartPole-v1")
    (problem,) = rebuild.make_networks(script, {"agent": "Agent"}, {})[1]
    assert problem.startswith("'agent' (Agent) cannot be rebuilt: the script has no statement 'agent = …';")
    assert "the script must have a statement 'agent = …'" in problem
    script.envs.close()


BASIC_TYPES = """
import gymnasium as gym
from torch import nn
env = gym.make("CartPole-v1")
sizes = [env.observation_space.shape[0], 16]
policy = nn.Sequential(nn.Linear(*sizes), nn.Tanh(), nn.Linear(sizes[-1], env.action_space.n))
"""


def test_a_plain_script_with_a_sequential_is_made_again(definitions, tmp_path):
    path = tmp_path / "plain.py"
    path.write_text(BASIC_TYPES)
    script = definitions(path, {"policy": "Sequential"})
    before = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    tensors, classes = collect_tensors({"policy": before})
    made, problems = rebuild.make_networks(script, classes, tensors)
    assert problems == []
    assert torch.equal(made["policy"](torch.ones(1, 4)), before(torch.ones(1, 4)))
    script.envs.close()


# As CleanRL's ppo_trxl.py makes its agent: of values that its main block works out.
OF_THE_MAIN_BLOCK = """
import gymnasium as gym
from torch import nn
class Agent(nn.Module):
    def __init__(self, args, action_space_shape, max_episode_steps):
        super().__init__()
        self.limit = max_episode_steps
        self.branches = nn.ModuleList(nn.Linear(args.width, actions) for actions in action_space_shape)
if __name__ == "__main__":
    envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env_id) for i in range(3)])
    action_space_shape = (envs.single_action_space.n,)
    max_episode_steps = envs.envs[0].spec.max_episode_steps
    if max_episode_steps > 100:
        max_episode_steps = 100
    agent = Agent(args, action_space_shape, max_episode_steps).to(device)
"""


def test_an_agent_is_made_of_what_the_main_block_works_out(definitions, tmp_path):
    path = tmp_path / "trxl.py"
    path.write_text(OF_THE_MAIN_BLOCK)
    script = definitions(path, {"agent": "Agent"}, env_id="CartPole-v1", width=6)
    before = script.Agent(script.args, (2,), 100)
    tensors, classes = collect_tensors({"agent": before})
    made, problems = rebuild.make_networks(script, classes, tensors)
    assert problems == []
    assert (made["agent"].limit, made["agent"].branches[0].weight.shape) == (100, (2, 6))
    script.envs.close()


def test_what_a_script_would_have_to_offer_is_reported(definitions, tmp_path):
    path = tmp_path / "plain.py"
    path.write_text("from torch import nn\nfor size in [4]:\n    net = nn.Linear(size, size)\n")
    script = definitions(path, {"net": "Linear"}, env_id="CartPole-v1")
    (problem,) = rebuild.make_networks(script, {"net": "Linear"}, {})[1]
    assert problem.startswith("'net' (Linear) cannot be rebuilt: name 'size' is not defined; the script must have")
    script.envs.close()


@pytest.mark.parametrize("name", ["make_env", "make_thunk"])
def test_a_factory_gets_what_its_parameters_are_called_after(name):
    settings = {}

    def factory(env_id, seed, idx, capture_video, run_name, gamma, size=3):
        settings.update(locals())
        return lambda: gymnasium.make(env_id)

    script = types.SimpleNamespace(**{name: factory})
    env = rebuild.make_env(script, types.SimpleNamespace(env_id="CartPole-v1", gamma=0.5), 12)
    assert env.spec.id == "CartPole-v1"
    assert (
        settings["seed"],
        settings["idx"],
        settings["gamma"],
        settings["capture_video"],
    ) == (12, 0, 0.5, False)
    env.close()


def test_an_unknown_parameter_is_named():
    with pytest.raises(Mismatch, match="make_env has a parameter 'frames'"):

        def make_env(env_id, frames):
            raise AssertionError("never called")

        rebuild.make_env(types.SimpleNamespace(make_env=make_env), types.SimpleNamespace(env_id="x"), 0)


def test_without_a_factory_the_id_is_enough():
    env = rebuild.make_env(types.SimpleNamespace(), types.SimpleNamespace(env_id="CartPole-v1"), 0)
    assert env.spec.id == "CartPole-v1"
    env.close()


def test_what_is_around_all_environments_is_around_them_again(definitions, tmp_path):
    path = tmp_path / "made.py"
    path.write_text(
        "import gymnasium as gym\n"
        "if __name__ == '__main__':\n"
        "    envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env_id) for i in range(4)])\n"
        "    envs = gym.wrappers.vector.ClipReward(envs, args.least, 1)\n"
    )
    script = definitions(path, {}, env_id="CartPole-v1", least=0.0)
    again = rebuild.wrap_vector_env(script, script.envs)
    assert isinstance(again, gymnasium.wrappers.vector.ClipReward)
    assert again.env is script.envs
    del script.args.least
    with pytest.raises(Mismatch, match="vector environment could not be rebuilt: .*'least'"):
        rebuild.wrap_vector_env(script, script.envs)
    script.envs.close()


def test_where_nothing_is_around_them_they_stay_as_they_are():
    envs = object()
    assert rebuild.wrap_vector_env(types.SimpleNamespace(), envs) is envs
