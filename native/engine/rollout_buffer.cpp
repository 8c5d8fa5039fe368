#include "rollout_buffer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace engine {

bool ObservationReader::read(const void* observations, std::size_t row, float* out) const {
    const std::size_t at = row * parts();
    switch (kind) {
        case InputKind::FLOATS: {
            const float* numbers = static_cast<const float*>(observations) + at;
            if (!shift) {
                std::memcpy(out, numbers, size * sizeof(float));
                return true;
            }
            for (int k = 0; k < size; ++k) {
                out[k] = std::min(std::max((numbers[k] - shift[k]) * scale[k], -limit), limit);
            }
            return true;
        }
        case InputKind::BYTES: {
            const std::uint8_t* bytes = static_cast<const std::uint8_t*>(observations) + at;
            for (int k = 0; k < size; ++k) out[k] = static_cast<float>(bytes[k]) / 255.0f;
            return true;
        }
        case InputKind::CATEGORICAL: {
            const std::int64_t* choices = static_cast<const std::int64_t*>(observations) + at;
            std::memset(out, 0, size * sizeof(float));
            for (std::size_t part = 0, first = 0; part < counts.size(); first += counts[part++]) {
                const std::int64_t choice = choices[part] - starts[part];
                if (choice < 0 || choice >= counts[part]) return false;
                out[first + choice] = 1.0f;
            }
            return true;
        }
    }
    return false;
}

double explained_variance(const RolloutBuffer& buffer) {
    const std::size_t samples = buffer.samples();
    double sum = 0, squares = 0, residual = 0, residual_squares = 0;
    for (std::size_t k = 0; k < samples; ++k) {
        sum += buffer.returns[k];
        residual += static_cast<double>(buffer.returns[k]) - buffer.values[k];
    }
    const double mean = sum / samples, residual_mean = residual / samples;
    for (std::size_t k = 0; k < samples; ++k) {
        const double deviation = buffer.returns[k] - mean;
        const double residual_deviation = static_cast<double>(buffer.returns[k]) - buffer.values[k] - residual_mean;
        squares += deviation * deviation;
        residual_squares += residual_deviation * residual_deviation;
    }
    return squares == 0 ? std::nan("") : 1 - residual_squares / squares;
}

RecurrentState::RecurrentState(const NetworkLayout& layout, const RolloutBuffer& buffer, int segment_length)
    : buffer_(buffer),
      segment_length_(segment_length),
      size_(layout.state_size),
      current_(buffer.env_count * layout.state_size),
      segment_starts_(buffer.samples() / segment_length * layout.state_size),
      truncated_(buffer.env_count) {
    for (int number = 0; number < layout.cell_count; ++number) {
        const Cell& cell = layout.cells[number];
        for (int part = 0; part < state_parts_of(cell.kind); ++part) {
            parts_.push_back({cell.state + static_cast<std::size_t>(part) * layout.strides[cell.hidden], cell.size});
        }
    }
}

std::size_t RecurrentState::part_count() const { return parts_.size(); }

int RecurrentState::part_size(std::size_t part) const { return parts_.at(part).size; }

void RecurrentState::load(const std::vector<const float*>& parts) {
    for (std::size_t number = 0; number < parts_.size(); ++number) {
        const Part& part = parts_[number];
        for (int env = 0; env < buffer_.env_count; ++env) {
            std::memcpy(current(env) + part.offset, parts[number] + static_cast<std::size_t>(env) * part.size,
                        part.size * sizeof(float));
        }
    }
}

void RecurrentState::store(const std::vector<float*>& parts) const {
    for (std::size_t number = 0; number < parts_.size(); ++number) {
        const Part& part = parts_[number];
        for (int env = 0; env < buffer_.env_count; ++env) {
            std::memcpy(parts[number] + static_cast<std::size_t>(env) * part.size,
                        current_.data() + env * size_ + part.offset, part.size * sizeof(float));
        }
    }
}

void RecurrentState::record(int step, int first, int last) {
    const std::size_t envs = buffer_.env_count, row = step * envs;
    for (int env = first; env < last; ++env) {
        if (step == 0) truncated_[env].clear();
        if (step % segment_length_ == 0) {
            float* saved = segment_starts_.data() + (step / segment_length_ * envs + env) * size_;
            std::memcpy(saved, current(env), size_ * sizeof(float));
        }
        if (step > 0 && buffer_.starts[row + env] && !buffer_.terminated[row - envs + env]) {
            truncated_[env].push_back({step - 1, std::vector<float>(current(env), current(env) + size_)});
        }
    }
}

const float* RecurrentState::after_truncation(int step, int env) const {
    if (step == buffer_.horizon - 1) return current_.data() + env * size_;
    for (const TruncatedState& truncated : truncated_[env]) {
        if (truncated.step == step) return truncated.state.data();
    }
    throw std::invalid_argument("environment " + std::to_string(env) + " was not truncated in step " +
                                std::to_string(step));
}

}  // namespace engine
