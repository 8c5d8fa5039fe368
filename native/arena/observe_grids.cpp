#include <cstring>

#include "observe.hpp"

namespace arena {

namespace {

// Rows are copied with a fixed larger width; each overwrites the excess of the previous one. Only the last ones, which
// would overrun the end, are copied exactly.
template <int View>
inline void copy_square(const std::uint8_t* corner, int stride, std::uint8_t* out) {
    constexpr int WIDE = View > 8 ? 16 : View > 4 ? 8 : 4;
    for (int row = 0; row < View; ++row) {
        if (row * View + WIDE <= View * View) {
            std::memcpy(out + row * View, corner + row * stride, WIDE);
        } else {
            std::memcpy(out + row * View, corner + row * stride, View);
        }
    }
}

template <int View>
inline void write_squares(const World& world, std::uint8_t* cells) {
    const Plan& plan = *world.plan;
    const int to_corner = (View / 2) * (plan.stride + 1);
    for (int agent = 0; agent < plan.agents; ++agent) {
        const std::uint8_t* corner = world.layer(plan.teams_of[agent]) + world.agent_at[agent] - to_corner;
        copy_square<View>(corner, plan.stride, cells + agent * View * View);
    }
}

void write_limited_squares(const World& world, std::uint8_t* cells) {
    const Plan& plan = *world.plan;
    const int side = 2 * plan.sight + 1, margin = plan.radius - plan.sight;
    std::memset(cells, UNSEEN_CODE, static_cast<std::size_t>(plan.agents) * plan.view * plan.view);
    for (int agent = 0; agent < plan.agents; ++agent) {
        const std::uint8_t* corner =
            world.layer(plan.teams_of[agent]) + world.agent_at[agent] - plan.sight * (plan.stride + 1);
        std::uint8_t* out = cells + agent * plan.view * plan.view + margin * (plan.view + 1);
        for (int row = 0; row < side; ++row) std::memcpy(out + row * plan.view, corner + row * plan.stride, side);
    }
}

void write_cells(const World& world, std::uint8_t* cells) {
    switch (world.plan->view) {
        case 3: return write_squares<3>(world, cells);
        case 5: return write_squares<5>(world, cells);
        case 7: return write_squares<7>(world, cells);
        case 9: return write_squares<9>(world, cells);
        case 11: return write_squares<11>(world, cells);
        case 13: return write_squares<13>(world, cells);
        default: return write_squares<15>(world, cells);
    }
}

}  // namespace

void write_bytes(const World& world, std::uint8_t* cells, std::uint8_t* selves) {
    const Plan& plan = *world.plan;
    if (plan.sight < plan.radius) {
        write_limited_squares(world, cells);
    } else {
        write_cells(world, cells);
    }
    const std::uint8_t now = progress(world);
    for (int agent = 0; agent < plan.agents; ++agent) {
        std::memcpy(selves + agent * SELF_COUNT, world.selves[agent].values, SELF_PROGRESS);
        selves[agent * SELF_COUNT + SELF_PROGRESS] = now;
    }
}

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
