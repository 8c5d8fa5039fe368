#include "priority_tree.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace engine {

PriorityTree::PriorityTree(double* sums, std::int64_t leaf_count, std::int64_t size, const PriorityConfig& config)
    : sums_(sums), leaf_count_(leaf_count), config_(config) {
    if (leaf_count < size || (leaf_count & (leaf_count - 1))) {
        throw std::invalid_argument("a sum tree of " + std::to_string(leaf_count) +
                                    " leaves does not fit a replay buffer of " + std::to_string(size) + " steps");
    }
}

// Nodes are computed anew, never by differences, so that sums do not drift.
void PriorityTree::set(std::int64_t index, double value) {
    std::int64_t node = index + leaf_count_;
    sums_[node] = value;
    while (node > 1) {
        node >>= 1;
        sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
    }
}

std::int64_t PriorityTree::find(double mass) const {
    std::int64_t node = 1;
    while (node < leaf_count_) {
        const std::int64_t left = 2 * node;
        const bool goes_right = mass >= sums_[left] && sums_[left + 1] > 0;
        if (goes_right) mass -= sums_[left];
        node = left + goes_right;
    }
    return node - leaf_count_;
}

void PriorityTree::add_row(std::int64_t row, std::int64_t next_row, std::int64_t env_count) {
    for (std::int64_t env = 0; env < env_count; ++env) {
        set(row * env_count + env, largest);
        set(next_row * env_count + env, 0);
    }
}

void PriorityTree::draw(const CounterRng& rng, int count, double beta, TransitionBatch& batch) const {
    const double part = sums_[1] / count;
    double smallest = sums_[1];
    for (int k = 0; k < count; ++k) {
        batch.indices[k] = find((k + static_cast<double>(rng.uniform(k))) * part);
        smallest = std::min(smallest, sums_[batch.indices[k] + leaf_count_]);
    }
    for (int k = 0; k < count; ++k) {
        batch.weights[k] = static_cast<float>(std::pow(smallest / sums_[batch.indices[k] + leaf_count_], beta));
    }
}

void PriorityTree::update(const TransitionBatch& batch, const float* td_errors, int count) {
    for (int k = 0; k < count; ++k) {
        const double value = std::pow(std::fabs(static_cast<double>(td_errors[k])) + config_.epsilon, config_.alpha);
        set(batch.indices[k], value);
        largest = std::max(largest, value);
    }
}

}  // namespace engine
