#include <cstring>

#include "observe.hpp"

namespace arena {

namespace {

// Rows are copied wider than they are, each overwriting what the one before wrote too much; only the last ones, which
// would run over the end, are copied exactly.
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

void write_narrow_squares(const World& world, std::uint8_t* cells) {
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
        write_narrow_squares(world, cells);
    } else {
        write_cells(world, cells);
    }
    const std::uint8_t now = progress(world);
    for (int agent = 0; agent < plan.agents; ++agent) {
        std::memcpy(selves + agent * SELF_COUNT, world.selves[agent].values, SELF_PROGRESS);
        selves[agent * SELF_COUNT + SELF_PROGRESS] = now;
    }
}

}  // namespace arena
