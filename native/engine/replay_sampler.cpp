#include "replay_sampler.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace engine {

TransitionBatch::TransitionBatch(int capacity, int observation_stride, const ReplayArrays& arrays)
    : capacity(capacity),
      stride(observation_stride),
      observations(static_cast<std::size_t>(capacity) * stride),
      next_observations(static_cast<std::size_t>(capacity) * stride),
      continuous(arrays.actions.continuous ? static_cast<std::size_t>(capacity) * arrays.parts : 0),
      choices(arrays.actions.discrete ? static_cast<std::size_t>(capacity) * arrays.parts : 0),
      rewards(capacity),
      discounts(capacity),
      indices(capacity),
      weights(capacity, 1.0f) {}

ReplaySampler::ReplaySampler(ReplayArrays arrays, ObservationReader reader, int n_step, float gamma)
    : arrays_(arrays), reader_(std::move(reader)), n_step_(n_step), gamma_(gamma) {
    if (n_step < 1) throw std::invalid_argument("n_step=" + std::to_string(n_step) + " must be at least 1");
    if (arrays.rows < 2) throw std::invalid_argument("a replay buffer needs at least 2 rows");
}

void ReplaySampler::set_finals(void* finals, int count) {
    arrays_.finals = finals;
    arrays_.final_count = count;
}

std::int64_t ReplaySampler::index_of(std::int64_t number) const {
    const std::int64_t envs = arrays_.env_count, rows = arrays_.rows;
    const std::int64_t row = position_.position - position_.size + number / envs;
    return (row < 0 ? row + rows : row) * envs + number % envs;
}

void ReplaySampler::draw(const CounterRng& rng, int count, TransitionBatch& batch) const {
    const std::uint64_t all = transitions();
    for (int k = 0; k < count; ++k) batch.indices[k] = index_of(rng.below(k, all));
    std::fill_n(batch.weights.begin(), count, 1.0f);
}

// Without this, most of the time of a gather from a large buffer is spent waiting for memory.
void ReplaySampler::prefetch(const TransitionBatch& batch, int count) const {
    if (reader_.kind != InputKind::FLOATS) return;
    const float* observations = static_cast<const float*>(arrays_.observations);
    const std::size_t size = reader_.size, next = static_cast<std::size_t>(arrays_.env_count) * size;
    for (int k = 0; k < count; ++k) {
        const std::size_t index = batch.indices[k];
        const float* row = observations + index * size;
        for (std::size_t at = 0; at < size; at += 16) {
            __builtin_prefetch(row + at);
            if (n_step_ == 1) __builtin_prefetch(row + at + next);
        }
        __builtin_prefetch(arrays_.rewards + index);
        __builtin_prefetch(arrays_.ends + index);
        __builtin_prefetch(arrays_.final_slots + index);
        if (arrays_.actions.continuous) {
            __builtin_prefetch(arrays_.actions.continuous + index * arrays_.parts);
        } else {
            __builtin_prefetch(arrays_.actions.discrete + index * arrays_.parts);
        }
    }
}

// The window ends with the episode, after n steps, or before the row that is acted on next.
ReplaySampler::Window ReplaySampler::window_of(std::size_t index) const {
    const std::size_t envs = arrays_.env_count, count = envs * arrays_.rows;
    const std::size_t newest = position_.position * envs;
    Window window{index, arrays_.rewards[index], gamma_};
    for (int step = 1; step < n_step_ && arrays_.ends[window.last] == RUNNING; ++step) {
        const std::size_t next = window.last + envs < count ? window.last + envs : window.last + envs - count;
        if (next >= newest && next < newest + envs) break;
        window.reward += window.discount * arrays_.rewards[next];
        window.discount *= gamma_;
        window.last = next;
    }
    if (arrays_.ends[window.last] == TERMINATED) window.discount = 0;
    return window;
}

void ReplaySampler::read(const void* observations, std::size_t at, float* out) const {
    if (!reader_.read(observations, at, out)) {
        throw std::out_of_range("an observation is not one of its space's categories");
    }
}

void ReplaySampler::gather(int first, int last, TransitionBatch& batch) const {
    const std::size_t envs = arrays_.env_count, count = envs * arrays_.rows, stride = batch.stride;
    const std::size_t parts = arrays_.parts;
    for (int k = first; k < last; ++k) {
        const std::size_t index = batch.indices[k];
        const Window window = window_of(index);
        batch.rewards[k] = window.reward;
        batch.discounts[k] = window.discount;
        read(arrays_.observations, index, batch.observations.data() + k * stride);
        const std::int32_t slot = arrays_.final_slots[window.last];
        const std::size_t next = window.last + envs < count ? window.last + envs : window.last + envs - count;
        float* out = batch.next_observations.data() + k * stride;
        slot == NO_FINAL ? read(arrays_.observations, next, out) : read(arrays_.finals, slot, out);
        if (arrays_.actions.continuous) {
            std::copy_n(arrays_.actions.continuous + index * parts, parts, batch.continuous.data() + k * parts);
        } else {
            std::copy_n(arrays_.actions.discrete + index * parts, parts, batch.choices.data() + k * parts);
        }
    }
}

void ReplaySampler::read_row(int row, int first, int last, float* out, std::size_t stride) const {
    for (int env = first; env < last; ++env) {
        read(arrays_.observations, static_cast<std::size_t>(row) * arrays_.env_count + env, out + (env - first) * stride);
    }
}

void ReplaySampler::begin_row() {
    const std::size_t envs = arrays_.env_count;
    std::int32_t* slots = arrays_.final_slots + next_row(position_.position) * envs;
    for (std::size_t env = 0; env < envs; ++env) {
        if (slots[env] != NO_FINAL) position_.free_slots.push_back(slots[env]);
        slots[env] = NO_FINAL;
    }
    std::fill_n(arrays_.ends + position_.position * envs, envs, RUNNING);
}

float* ReplaySampler::keep_final(int env) {
    if (position_.free_slots.empty()) throw std::length_error("the replay buffer has no room for a final observation");
    const int slot = position_.free_slots.back();
    position_.free_slots.pop_back();
    arrays_.final_slots[static_cast<std::size_t>(position_.position) * arrays_.env_count + env] = slot;
    return static_cast<float*>(arrays_.finals) + static_cast<std::size_t>(slot) * reader_.size;
}

void ReplaySampler::end_row() {
    position_.position = next_row(position_.position);
    position_.size = std::min(position_.size + 1, arrays_.rows - 1);
    position_.total_rows += 1;
}

}  // namespace engine
