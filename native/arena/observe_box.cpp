#include <cstring>

#include "observe.hpp"

namespace arena {

namespace {

// The channels of one cell; `plane` is the distance between channels.
void write_cell(const World& world, int viewer, Thing thing, std::uint8_t* cell, int plane) {
    const Plan& plan = *world.plan;
    if (thing == FLOOR) return;
    if (thing == WALL) {
        cell[WALL_FEATURE * plane] = 1;
    } else if (thing < plan.first_agent) {
        const int station = thing - FIRST_STATION;
        cell[(FIRST_STATION_FEATURE + plan.kinds[station]) * plane] = 1;
        if (!plan.show_state) return;
        cell[COOLDOWN_FEATURE * plane] = static_cast<std::uint8_t>(world.cooldown[station]);
        cell[EXHAUSTED_FEATURE * plane] = world.stock[station] == 0;
    } else {
        const int agent = thing - plan.first_agent;
        const std::uint8_t* self = world.selves[agent].values;
        const bool is_friend = plan.teams_of[agent] == plan.teams_of[viewer];
        cell[(is_friend ? FRIEND_FEATURE : FOE_FEATURE) * plane] = 1;
        cell[FACING_FEATURE * plane] = self[SELF_FACING];
        cell[FROZEN_FEATURE * plane] = self[SELF_FROZEN];
        cell[ARMOUR_FEATURE * plane] = self[ARMOUR];
        cell[HEART_FEATURE * plane] = self[HEART];
    }
}

}  // namespace

void write_box(const World& world, std::uint8_t* box) {
    const Plan& plan = *world.plan;
    const int plane = plan.view * plan.view, middle = plane / 2;
    std::memset(box, 0, static_cast<std::size_t>(plan.agents) * FEATURE_COUNT * plane);
    for (int agent = 0; agent < plan.agents; ++agent) {
        std::uint8_t* channels = box + static_cast<std::size_t>(agent) * FEATURE_COUNT * plane;
        for (int dy = -plan.sight; dy <= plan.sight; ++dy) {
            for (int dx = -plan.sight; dx <= plan.sight; ++dx) {
                const Thing thing = world.things[world.agent_at[agent] + dy * plan.stride + dx];
                write_cell(world, agent, thing, channels + middle + dy * plan.view + dx, plane);
            }
        }
        std::uint8_t* known = channels + FIRST_SELF_FEATURE * plane + middle;
        for (int field = 0; field < SELF_PROGRESS; ++field) known[field * plane] = world.selves[agent].values[field];
        known[SELF_PROGRESS * plane] = progress(world);
    }
}

}  // namespace arena
