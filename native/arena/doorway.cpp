#include "doorway.hpp"

#include <cstdio>
#include <exception>

namespace arena {

namespace {

Batch& batch_of(void* batch) { return *static_cast<Batch*>(batch); }

// No exception may leave one module for another.
template <typename Work>
int told(char* message, std::size_t room, const Work& work) {
    try {
        work();
        return 0;
    } catch (const std::exception& problem) {
        std::snprintf(message, room, "%s", problem.what());
        return -1;
    }
}

int begin(void* batch, char* message, std::size_t room) {
    return told(message, room, [&] { batch_of(batch).take_turn(); });
}

void end(void* batch) { batch_of(batch).end_turn(); }

int step(void* batch, std::int32_t first_world, std::int32_t last_world, const std::int64_t* actions, void* const* seen,
         float* rewards, std::uint8_t* ended, char* message, std::size_t room) {
    return told(message, room, [&] {
        Batch& worlds = batch_of(batch);
        thread_local Looks looks;
        const bool has_selves = worlds.form() == Form::BYTES;
        const Outputs out = {static_cast<std::uint8_t*>(seen[0]),
                             has_selves ? static_cast<std::uint8_t*>(seen[1]) : nullptr};
        worlds.step_some(first_world, last_world, actions, out, rewards, ended, looks);
    });
}

}  // namespace

Doorway::Doorway(Batch& worlds) : palaestra_batch_door{} {
    const bool has_names = worlds.form() == Form::BYTES;
    seen_.push_back({has_names ? "cells" : "", "uint8", static_cast<std::int64_t>(worlds.view_bytes())});
    if (has_names) seen_.push_back({"self", "uint8", SELF_COUNT});
    version = PALAESTRA_BATCH_DOOR_VERSION;
    world_count = worlds.world_count();
    agents = worlds.agents();
    action_items = 1;
    part_count = static_cast<std::int32_t>(seen_.size());
    parts = seen_.data();
    batch = &worlds;
    begin = arena::begin;
    end = arena::end;
    step = arena::step;
}

}  // namespace arena
