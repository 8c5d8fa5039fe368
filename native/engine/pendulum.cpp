#include <algorithm>
#include <cmath>

#include "rules.hpp"

namespace engine {

namespace {

constexpr double PI = 3.141592653589793;

// Python's remainder, which has the sign of the divisor.
double remainder_of(double number, double divisor) {
    const double rest = std::fmod(number, divisor);
    return rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest;
}

class Pendulum : public Rules {
   public:
    explicit Pendulum(const Constants& constants)
        : gravity_(constants["g"]),
          mass_(constants["m"]),
          length_(constants["l"]),
          dt_(constants["dt"]),
          max_speed_(constants["max_speed"]),
          max_torque_(static_cast<float>(constants["max_torque"])) {}

    int state_size() const override { return 2; }
    int observation_size() const override { return 3; }
    bool takes_numbers() const override { return true; }

    void begin(double* state, Pcg64& dice) const override {
        state[0] = dice.uniform(-PI, PI);
        state[1] = dice.uniform(-1.0, 1.0);
    }

    // The torque is single precision in Gymnasium, and so is what is made of it and of constants alone.
    Outcome step(double* state, const Action& action) const override {
        const double angle = state[0], speed = state[1];
        const float torque = std::min(std::max(action.numbers[0], -max_torque_), max_torque_);
        const double upright = remainder_of(angle + PI, 2 * PI) - PI;
        const double cost = squared(upright) + 0.1 * squared(speed) + 0.001f * squared(torque);
        const float pushed = static_cast<float>(3.0 / (mass_ * squared(length_))) * torque;
        const double faster = speed + (3 * gravity_ / (2 * length_) * std::sin(angle) + pushed) * dt_;
        state[1] = std::min(std::max(faster, -max_speed_), max_speed_);
        state[0] = angle + state[1] * dt_;
        return {-cost, false};
    }

    void observe(const double* state, float* out) const override {
        out[0] = static_cast<float>(std::cos(state[0]));
        out[1] = static_cast<float>(std::sin(state[0]));
        out[2] = static_cast<float>(state[1]);
    }

   private:
    const double gravity_, mass_, length_, dt_, max_speed_;
    const float max_torque_;
};

}  // namespace

std::unique_ptr<Rules> pendulum(const Constants& constants) { return std::make_unique<Pendulum>(constants); }

}  // namespace engine
