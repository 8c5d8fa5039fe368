import pytest

from palaestra.apps.scripts.launcher.era import speaks_of_gymnasium_1


@pytest.mark.parametrize(
    "text",
    [
        "envs = gym.vector.SyncVectorEnv(makers, autoreset_mode=SAME)",
        "mode = gym.vector.AutoresetMode.NEXT_STEP",
        "envs = gym.wrappers.vector.NormalizeObservation(envs)",
        "from gymnasium.wrappers.vector import RecordEpisodeStatistics",
        "from gymnasium.wrappers import vector",
        "if infos['_episode'][i]: print(infos['episode']['r'][i])",
        'infos["final_info"]["_episode"]; AutoresetMode.SAME_STEP',
    ],
)
def test_names_that_the_old_one_did_not_have_tell_the_new_one(text):
    assert speaks_of_gymnasium_1(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "for info in infos['final_info']: print(info['episode'])",
        "real_next_obs[idx] = infos['final_observation'][idx]",
        "infos['final_info'][0]['_episode']",
        "env = gym.wrappers.RecordEpisodeStatistics(env); mean_episode = 1",
    ],
)
def test_everything_else_is_taken_for_old(text):
    assert not speaks_of_gymnasium_1(text)
