from dataclasses import replace

import pytest
import torch

from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import (
    BoxSpec,
    DictSpec,
    DiscreteSpec,
    EnvInterface,
    FeatureSpec,
    decode_interface,
    encode_interface,
)
from palaestra.policies.build import build_policy
from palaestra.policies.features import (
    NOTHING,
    adopt_features,
    channel_scales,
    feature_map,
    is_tokens,
    refuse_other_spaces,
    slot_count,
    translate,
)

BYTES = {"dtype": "uint8", "low": (0.0,), "high": (255.0,)}
NAMES = ("wall", "ore", "battery", "heart", "agent")
NORMS = {"wall": 1.0, "ore": 10.0, "battery": 5.0, "heart": 2.0, "agent": 1.0}


def named(**ids):
    return tuple(FeatureSpec(name, id_, NORMS.get(name, 3.0)) for name, id_ in ids.items())


OURS = named(wall=0, ore=1, battery=2, heart=3, agent=4)
PERMUTED = named(wall=3, ore=0, battery=4, heart=1, agent=2)


def tokens(features, count=12):
    return EnvInterface(BoxSpec((count, 3), **BYTES), DiscreteSpec(6), features)


def box(features, channels=5):
    return EnvInterface(BoxSpec((channels, 6, 7), **BYTES), DiscreteSpec(6), features)


def ids(features):
    return {feature.name: feature.id for feature in features}


def see(interface, world):
    """What an environment with this interface shows of a world {(y, x): {name: value}}, written the slow way."""
    by_name = ids(interface.features)
    if is_tokens(interface.observation_space):
        rows = torch.full(interface.observation_space.shape, NOTHING, dtype=torch.uint8)
        things = [(y, x, name, value) for (y, x), cell in world.items() for name, value in cell.items()]
        for row, (y, x, name, value) in enumerate(thing for thing in things if thing[2] in by_name):
            rows[row] = torch.tensor([y << 4 | x, by_name[name], value])
        return rows[None, None]
    picture = torch.zeros(interface.observation_space.shape, dtype=torch.uint8)
    for (y, x), cell in world.items():
        for name, value in cell.items():
            if name in by_name:
                picture[by_name[name], y, x] = value
    return picture[None, None]


def random_world(seed, names=NAMES, count=10):
    generator = torch.Generator().manual_seed(seed)

    def draw(limit):
        return int(torch.randint(limit, (), generator=generator))

    world = {}
    for _ in range(count):
        world.setdefault((draw(6), draw(7)), {})[names[draw(len(names))]] = 1 + draw(255)
    return world


def logits(agent, observation):
    return agent(observation, agent.initial_memory(1)).distribution.log_probs


CASES = [
    ("fast", box),
    ("cnn", box),
    ("mlp", box),
    ("attention", tokens),
    ("palaestra.policies.library.fast:FastPolicy", box),
]


def agent_for(policy, interface):
    torch.manual_seed(0)
    kind = {"module": policy} if ":" in policy else {"graph": policy}
    settings = {} if policy == "mlp" else {"size": 8}
    agent = build_policy(PolicyConfig(**kind, settings=settings), interface)
    for name, weights in agent.named_parameters():
        if "action" in name:
            torch.nn.init.normal_(weights)  # actions that differ clearly from each other
    return agent


@pytest.mark.parametrize(("policy", "kind"), CASES)
def test_permuted_ids_give_identical_actions(policy, kind):
    agent, env = agent_for(policy, kind(OURS)), kind(PERMUTED)
    playing = agent.playing_in(env)
    worlds = [random_world(seed) for seed in range(8)]
    for world in worlds:
        home = logits(agent, see(kind(OURS), world))
        assert torch.equal(logits(playing, see(env, world)), home)
        acted = playing.act(see(env, world), playing.initial_memory(1)).distribution.log_probs
        torch.testing.assert_close(acted, home)
    unmapped = [logits(agent, see(env, world)) for world in worlds]
    assert not torch.allclose(torch.stack(unmapped), torch.stack([logits(agent, see(kind(OURS), w)) for w in worlds]))


@pytest.mark.parametrize(("policy", "kind"), CASES)
def test_missing_features_are_as_if_there_were_none_about(policy, kind):
    agent = agent_for(policy, kind(OURS))
    poorer = kind(named(agent=0, wall=1))
    world = random_world(3)
    only_known = {place: {n: v for n, v in cell.items() if n in ("agent", "wall")} for place, cell in world.items()}
    torch.testing.assert_close(
        logits(agent.playing_in(poorer), see(poorer, world)), logits(agent, see(kind(OURS), only_known))
    )


@pytest.mark.parametrize(("policy", "kind"), CASES)
def test_new_features_are_masked_in_evaluation(policy, kind):
    agent = agent_for(policy, kind(OURS))
    env = kind(named(laser=0, wall=1, ore=2, battery=3, heart=4, agent=5), *([6] if kind is box else []))
    world = random_world(4, (*NAMES, "laser", "laser"))
    without = {place: {n: v for n, v in cell.items() if n != "laser"} for place, cell in world.items()}
    assert world != without
    playing = agent.playing_in(env)
    torch.testing.assert_close(logits(playing, see(env, world)), logits(agent, see(kind(OURS), without)))
    assert playing.feature_map.translation.masked == ("laser",)


def test_the_normalisation_is_the_one_of_the_name_not_of_the_id():
    agent = agent_for("attention", tokens(OURS))
    env = tokens(PERMUTED)
    seen = agent.playing_in(env).feature_map(see(env, {(2, 3): {"ore": 200}}))
    encoded = agent.network.nodes["tokens"](seen.flatten(0, 1))
    assert encoded[0, 0, -1] == 20.0


def test_bytes_stay_bytes_and_nothing_wraps_around():
    for kind in (tokens, box):
        env = kind(PERMUTED)
        seen = see(env, {(1, 1): {"heart": 255, "agent": 254}})
        mapped = feature_map(kind(OURS), env)(seen)
        assert mapped.dtype == torch.uint8
        assert torch.equal(mapped, see(kind(OURS), {(1, 1): {"heart": 255, "agent": 254}}))


def test_a_scale_stands_at_its_features_id_not_at_its_place_in_the_list():
    scales = channel_scales((FeatureSpec("late", 3, 5.0), FeatureSpec("early", 1, 7.0)), 4)
    assert scales.tolist() == [1.0, 7.0, 1.0, 5.0]


def test_ids_that_agree_cost_nothing():
    assert feature_map(tokens(OURS), tokens(tuple(reversed(OURS)))) is None
    assert feature_map(tokens(OURS), tokens(OURS[:3])) is None, "only fewer"
    assert feature_map(tokens(OURS), tokens(())) is None, "an environment without names is taken at its word"


def test_a_translation_says_what_is_known_masked_and_missing():
    found = translate(tokens(OURS), tokens(named(ore=7, laser=2)))
    assert found.ids == ((7, 1),)
    assert found.masked == ("laser",)
    assert found.missing == ("wall", "battery", "heart", "agent")


def test_training_gives_new_features_free_slots_and_keeps_the_old_ones():
    env = tokens(named(laser=0, ore=5, mine=1))
    adopted = adopt_features(tokens(OURS), env)
    assert ids(adopted.features) == {**ids(OURS), "laser": 5, "mine": 6}
    agent = agent_for("attention", adopted).playing_in(env)
    assert agent.feature_map.translation.masked == ()
    mapped = agent.feature_map(see(env, {(0, 1): {"laser": 9, "ore": 8}}))
    assert mapped[0, 0, :2].tolist() == [[1, 5, 9], [1, 1, 8]]


def test_new_features_learn_while_old_weights_stay_loadable():
    old = agent_for("attention", tokens(OURS))
    env = tokens(named(laser=0, **{name: index + 1 for index, name in enumerate(NAMES)}))
    grown = build_policy(PolicyConfig(graph="attention", settings={"size": 8}), adopt_features(old.interface, env))
    grown.load_state_dict(old.state_dict())
    playing = grown.playing_in(env)
    playing(see(env, {(0, 0): {"laser": 9}}), playing.initial_memory(1)).value.sum().backward()
    learned = grown.network.nodes["tokens"].table.weight.grad.abs().sum(dim=1).nonzero().flatten().tolist()
    assert 5 in learned


def test_a_box_without_a_free_channel_keeps_the_new_feature_masked():
    env = box(named(laser=5, **{name: index for index, name in enumerate(NAMES)}), 6)
    full, roomy = box(OURS), box(OURS, 7)
    assert adopt_features(full, env) == full
    assert ids(adopt_features(roomy, env).features)["laser"] == 5


def test_the_mapping_travels_in_the_checkpoint():
    kept = decode_interface(encode_interface(tokens(OURS)))
    assert kept.features == OURS
    assert translate(kept, tokens(PERMUTED)) == translate(tokens(OURS), tokens(PERMUTED))


def test_parts_that_are_no_features_pass_untouched():
    def with_speed(features):
        parts = (("speed", BoxSpec((5,))), ("view", BoxSpec((5, 6, 7), **BYTES)))
        return EnvInterface(DictSpec(parts), DiscreteSpec(2), features)

    observation = {"speed": torch.arange(5.0).view(1, 1, 5), "view": see(box(PERMUTED), random_world(1))}
    mapped = feature_map(with_speed(OURS), with_speed(PERMUTED))(observation)
    assert mapped["speed"] is observation["speed"]
    assert torch.equal(mapped["view"], see(box(OURS), random_world(1)))


def test_a_vector_of_named_numbers_is_put_in_order_before_it_is_normalised():
    ours = EnvInterface(BoxSpec((3,)), DiscreteSpec(2), named(speed=0, angle=1, height=2))
    env = EnvInterface(BoxSpec((3,)), DiscreteSpec(2), named(height=0, speed=1, angle=2))
    agent = build_policy(PolicyConfig(graph="mlp", normalize_observations=True), ours).playing_in(env)
    agent.take_in(torch.tensor([[[5.0, 1.0, 2.0]], [[7.0, 1.0, 4.0]]]))
    assert agent.observation_normalizer.parts["part_"].moments.mean.tolist() == [1.0, 3.0, 6.0]


@pytest.mark.parametrize(
    "env",
    [
        EnvInterface(BoxSpec((5, 6, 8), **BYTES), DiscreteSpec(6), OURS),
        EnvInterface(BoxSpec((5, 6, 7)), DiscreteSpec(6), OURS),
        EnvInterface(BoxSpec((5, 6, 7), **BYTES), DiscreteSpec(7), OURS),
        EnvInterface(DictSpec((("view", BoxSpec((5, 6, 7), **BYTES)),)), DiscreteSpec(6), OURS),
        EnvInterface(BoxSpec((6, 6, 7), **BYTES), DiscreteSpec(6)),
    ],
)
def test_spaces_that_differ_in_more_than_features_are_refused(env):
    with pytest.raises(UsageError, match="The policy was trained with the"):
        refuse_other_spaces(box(OURS), env)


def test_more_tokens_than_in_training_are_fine():
    refuse_other_spaces(tokens(OURS), tokens(OURS, count=40))


def test_slots_and_scales():
    assert slot_count(tokens(()).observation_space) == 256
    assert slot_count(box(()).observation_space) == 5
    assert slot_count(DiscreteSpec(3)) == 0
    assert channel_scales(OURS, 7).tolist() == [1, 10, 5, 2, 1, 1, 1]
    assert channel_scales((replace(OURS[1], id=9),), 2).tolist() == [1, 1]
