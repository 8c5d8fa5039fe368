#include "world.hpp"

#include <algorithm>
#include <numeric>

namespace arena {

void WorldCapacity::include(const Plan& plan) {
    agents = std::max(agents, plan.agents);
    stations = std::max(stations, plan.total_stations);
    grid_size = std::max(grid_size, plan.grid_size);
    layers = std::max(layers, plan.layers);
}

World::World(const WorldCapacity& room)
    : things(room.grid_size),
      codes(static_cast<std::size_t>(room.grid_size) * room.layers),
      station_at(room.stations),
      cooldown(room.stations),
      stock(room.stations),
      agent_at(room.agents),
      selves(room.agents),
      frozen(room.agents),
      accounts(static_cast<std::size_t>(room.agents) * ITEM_COUNT),
      counters(static_cast<std::size_t>(room.agents) * COUNTER_COUNT),
      returns(room.agents),
      order_(room.agents),
      own_rewards_(room.agents) {}

bool World::reset(const Plan& new_plan, int new_task, std::uint64_t seed, MapGenerator& generator) {
    plan = nullptr;
    rng.state = seed;
    if (!generator.generate(new_plan, rng)) return false;
    plan = &new_plan;
    task = new_task;
    clock = 0;
    std::fill(things.begin(), things.end(), WALL);
    for (int y = 0; y < plan->height; ++y) {
        for (int x = 0; x < plan->width; ++x) {
            if (generator.is_floor()[y * plan->width + x]) things[plan->at(y, x)] = FLOOR;
        }
    }
    const auto position = [this](int cell) { return plan->at(cell / plan->width, cell % plan->width); };
    for (int station = 0; station < plan->total_stations; ++station) {
        station_at[station] = position(generator.station_cells()[station]);
        cooldown[station] = 0;
        stock[station] = plan->stations[plan->kinds[station]].stock;
    }
    std::vector<int>& floor = generator.floor_cells();
    for (int agent = 0; agent < plan->agents; ++agent) {
        std::swap(floor[agent], floor[agent + rng.below(static_cast<int>(floor.size()) - agent)]);
        agent_at[agent] = position(floor[agent]);
        selves[agent] = Self{};
        std::copy(plan->inventory.begin(), plan->inventory.end(), selves[agent].values);
        selves[agent].values[SELF_FACING] = static_cast<std::uint8_t>(1 + rng.below(4));
        frozen[agent] = 0;
    }
    std::fill(accounts.begin(), accounts.end(), 0);
    std::fill(counters.begin(), counters.end(), 0);
    std::fill(returns.begin(), returns.end(), 0.0);
    rebuild_grids();
    return true;
}

void World::rebuild_grids() {
    for (int layer_number = 0; layer_number < plan->layers; ++layer_number) {
        std::uint8_t* codes_here = layer(layer_number);
        for (int position = 0; position < plan->grid_size; ++position) {
            codes_here[position] = things[position] == WALL ? WALL_CODE : FLOOR_CODE;
        }
    }
    cooling_ = frozen_ = 0;
    for (int station = 0; station < plan->total_stations; ++station) {
        things[station_at[station]] = static_cast<Thing>(FIRST_STATION + station);
        cooling_ += cooldown[station] > 0;
        update_station_code(station);
    }
    for (int agent = 0; agent < plan->agents; ++agent) {
        things[agent_at[agent]] = static_cast<Thing>(plan->first_agent + agent);
        frozen_ += frozen[agent] > 0;
        update_agent_code(agent);
    }
}

std::uint8_t World::station_code(int station) const {
    StationState state = READY;
    if (plan->show_state) state = stock[station] == 0 ? EXHAUSTED : cooldown[station] > 0 ? COOLING : READY;
    return static_cast<std::uint8_t>(FIRST_STATION_CODE + STATION_STATES * plan->kinds[station] + state);
}

std::uint8_t World::agent_code(int agent, int seen_by_team) const {
    const int code = plan->teams_of[agent] == seen_by_team ? FRIEND_CODE : FOE_CODE;
    return static_cast<std::uint8_t>(code + (frozen[agent] > 0));
}

void World::update_station_code(int station) {
    const std::uint8_t code = station_code(station);
    for (int team = 0; team < plan->layers; ++team) layer(team)[station_at[station]] = code;
}

void World::update_agent_code(int agent) {
    for (int team = 0; team < plan->layers; ++team) layer(team)[agent_at[agent]] = agent_code(agent, team);
}

void World::step(const std::int64_t* actions, float* rewards) {
    std::fill_n(own_rewards_.begin(), plan->agents, 0.0);
    shuffle_order();
    for (int turn = 0; turn < plan->agents; ++turn) {
        const int agent = order_[turn];
        act(agent, static_cast<int>(actions[agent]));
    }
    advance_timers();
    distribute_rewards(rewards);
}

void World::shuffle_order() {
    std::iota(order_.begin(), order_.begin() + plan->agents, std::uint16_t{0});
    for (int place = plan->agents - 1; place > 0; --place) std::swap(order_[place], order_[rng.below(place + 1)]);
}

inline void World::act(int agent, int action) {
    selves[agent].values[SELF_LAST_ACTION] = static_cast<std::uint8_t>(1 + action);
    if (frozen[agent] > 0) {
        count(agent, FROZEN_STEPS);
    } else if (action == ATTACK) {
        if (plan->combat) attack(agent);
    } else if (action != REST) {
        walk(agent, action - NORTH);
    }
}

inline void World::walk(int agent, int facing) {
    selves[agent].values[SELF_FACING] = static_cast<std::uint8_t>(1 + facing);
    const int here = agent_at[agent];
    const int ahead = here + plan->steps[facing];
    const Thing thing = things[ahead];
    if (thing == FLOOR) {
        things[ahead] = things[here];
        things[here] = FLOOR;
        for (int team = 0; team < plan->layers; ++team) {
            std::uint8_t* codes_here = layer(team);
            codes_here[ahead] = codes_here[here];
            codes_here[here] = FLOOR_CODE;
        }
        agent_at[agent] = ahead;
        count(agent, MOVES);
    } else if (thing >= FIRST_STATION && thing < plan->first_agent) {
        use(agent, thing - FIRST_STATION);
    }
}

void World::use(int agent, int station) {
    const int kind = plan->kinds[station];
    const StationSettings& settings = plan->stations[kind];
    std::uint8_t* items = selves[agent].values;
    const int ingredient = INGREDIENT[kind], product = PRODUCT[kind];
    if (cooldown[station] > 0 || stock[station] == 0) return;
    if (ingredient != NONE && items[ingredient] < settings.cost) return;
    if (items[product] >= plan->limit) return;
    if (ingredient != NONE) items[ingredient] = static_cast<std::uint8_t>(items[ingredient] - settings.cost);
    items[product] += 1;
    count(agent, FIRST_PRODUCT_COUNTER + product);
    gain(agent, product);
    if (stock[station] != UNLIMITED) stock[station] -= 1;
    if (settings.cooldown > 0) {
        cooldown[station] = static_cast<std::int16_t>(settings.cooldown + 1);
        ++cooling_;
    }
    update_station_code(station);
}

void World::attack(int agent) {
    std::uint8_t* items = selves[agent].values;
    if (items[CHARGE] == 0) return;
    const int other = first_agent_in_reach(agent);
    if (other == NONE || frozen[other] > 0) return;
    if (plan->teams > 1 && plan->teams_of[other] == plan->teams_of[agent]) return;
    items[CHARGE] -= 1;
    count(agent, ATTACKS);
    if (selves[other].values[ARMOUR] > 0) {
        selves[other].values[ARMOUR] -= 1;
        count(agent, BLOCKED);
        return;
    }
    frozen[other] = static_cast<std::int16_t>(plan->freeze + 1);
    ++frozen_;
    update_agent_code(other);
    count(agent, HITS);
    steal(agent, other);
}

int World::first_agent_in_reach(int agent) const {
    const int step = plan->steps[selves[agent].values[SELF_FACING] - 1];
    int position = agent_at[agent];
    for (int distance = 1; distance <= plan->reach; ++distance) {
        position += step;
        const Thing thing = things[position];
        if (thing >= plan->first_agent) return thing - plan->first_agent;
        if (thing != FLOOR) return NONE;
    }
    return NONE;
}

void World::steal(int thief, int other) {
    for (const int item : {ORE, BATTERY, HEART}) {
        std::uint8_t& mine = selves[thief].values[item];
        std::uint8_t& theirs = selves[other].values[item];
        const int amount = std::min({plan->steal, static_cast<int>(theirs), plan->limit - mine});
        for (int piece = 0; piece < amount; ++piece) {
            gain(thief, item);
            lose(other, item);
        }
        mine = static_cast<std::uint8_t>(mine + amount);
        theirs = static_cast<std::uint8_t>(theirs - amount);
        count(thief, STOLEN, static_cast<std::uint32_t>(amount));
        count(other, LOST, static_cast<std::uint32_t>(amount));
    }
}

void World::gain(int agent, int item) {
    std::int32_t& account = accounts[agent * ITEM_COUNT + item];
    if (plan->reward_caps[item] >= 0 && account >= plan->reward_caps[item]) return;
    ++account;
    own_rewards_[agent] += plan->rewards[item];
}

void World::lose(int agent, int item) {
    std::int32_t& account = accounts[agent * ITEM_COUNT + item];
    if (account <= 0) return;
    --account;
    own_rewards_[agent] -= plan->rewards[item];
}

void World::advance_timers() {
    if (cooling_ > 0) {
        for (int station = 0; station < plan->total_stations; ++station) {
            if (cooldown[station] == 0 || --cooldown[station] > 0) continue;
            --cooling_;
            update_station_code(station);
        }
    }
    if (frozen_ > 0) {
        for (int agent = 0; agent < plan->agents; ++agent) {
            if (frozen[agent] == 0) continue;
            selves[agent].values[SELF_FROZEN] = static_cast<std::uint8_t>(--frozen[agent]);
            if (frozen[agent] > 0) continue;
            --frozen_;
            update_agent_code(agent);
        }
    }
    ++clock;
}

void World::distribute_rewards(float* rewards) {
    const double share = plan->team_share;
    if (share > 0) {
        double sums[MAX_TEAMS] = {};
        int sizes[MAX_TEAMS] = {};
        for (int agent = 0; agent < plan->agents; ++agent) {
            sums[plan->teams_of[agent]] += own_rewards_[agent];
            sizes[plan->teams_of[agent]] += 1;
        }
        for (int team = 0; team < plan->teams; ++team) sums[team] /= sizes[team] ? sizes[team] : 1;
        for (int agent = 0; agent < plan->agents; ++agent) {
            own_rewards_[agent] = (1 - share) * own_rewards_[agent] + share * sums[plan->teams_of[agent]];
        }
    }
    for (int agent = 0; agent < plan->agents; ++agent) {
        rewards[agent] = static_cast<float>(own_rewards_[agent]);
        returns[agent] += static_cast<double>(rewards[agent]);
    }
}

}  // namespace arena
