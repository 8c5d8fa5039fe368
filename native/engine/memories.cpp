#include "memories.hpp"

#include <cstring>
#include <stdexcept>

namespace engine {

Memories::Memories(const Plan& plan, const Recording& recording, int stretch)
    : recording_(recording),
      stretch_(stretch),
      size_(plan.state_size),
      now_(recording.env_count * plan.state_size),
      before_(recording.samples() / stretch * plan.state_size),
      cuts_(recording.env_count) {
    for (int number = 0; number < plan.cell_count; ++number) {
        const Cell& cell = plan.cells[number];
        for (int part = 0; part < state_parts_of(cell.kind); ++part) {
            parts_.push_back({cell.state + static_cast<std::size_t>(part) * plan.strides[cell.hidden], cell.size});
        }
    }
}

std::size_t Memories::part_count() const { return parts_.size(); }

int Memories::part_size(std::size_t part) const { return parts_.at(part).size; }

void Memories::take(const std::vector<const float*>& parts) {
    for (std::size_t number = 0; number < parts_.size(); ++number) {
        const Part& part = parts_[number];
        for (int env = 0; env < recording_.env_count; ++env) {
            std::memcpy(now(env) + part.place, parts[number] + static_cast<std::size_t>(env) * part.size,
                        part.size * sizeof(float));
        }
    }
}

void Memories::give(const std::vector<float*>& parts) const {
    for (std::size_t number = 0; number < parts_.size(); ++number) {
        const Part& part = parts_[number];
        for (int env = 0; env < recording_.env_count; ++env) {
            std::memcpy(parts[number] + static_cast<std::size_t>(env) * part.size,
                        now_.data() + env * size_ + part.place, part.size * sizeof(float));
        }
    }
}

void Memories::keep(int step, int first, int last) {
    const std::size_t envs = recording_.env_count, row = step * envs;
    for (int env = first; env < last; ++env) {
        if (step == 0) cuts_[env].clear();
        if (step % stretch_ == 0) {
            std::memcpy(before_.data() + (step / stretch_ * envs + env) * size_, now(env), size_ * sizeof(float));
        }
        if (step > 0 && recording_.starts[row + env] && !recording_.terminated[row - envs + env]) {
            cuts_[env].push_back({step - 1, std::vector<float>(now(env), now(env) + size_)});
        }
    }
}

const float* Memories::after_cut(int step, int env) const {
    if (step == recording_.horizon - 1) return now_.data() + env * size_;
    for (const CutState& cut : cuts_[env]) {
        if (cut.step == step) return cut.state.data();
    }
    throw std::invalid_argument("a cut where no episode began anew");
}

}  // namespace engine
