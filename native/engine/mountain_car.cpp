#include <algorithm>
#include <cmath>

#include "rules.hpp"

namespace engine {

namespace {

class MountainCar : public Rules {
   public:
    explicit MountainCar(const Constants& constants)
        : leftmost_(constants["min_position"]),
          rightmost_(constants["max_position"]),
          max_speed_(constants["max_speed"]),
          goal_(constants["goal_position"]),
          goal_speed_(constants["goal_velocity"]),
          force_(constants["force"]),
          gravity_(constants["gravity"]) {}

    int state_size() const override { return 2; }
    int observation_size() const override { return 2; }

    void begin(double* state, Pcg64& dice) const override {
        state[0] = dice.uniform(-0.6, -0.4);
        state[1] = 0.0;
    }

    Outcome step(double* state, const Action& action) const override {
        const double push = static_cast<double>(action.choice - 1) * force_;
        double speed = state[1] + (push + std::cos(3 * state[0]) * -gravity_);
        speed = std::min(std::max(speed, -max_speed_), max_speed_);
        const double place = std::min(std::max(state[0] + speed, leftmost_), rightmost_);
        if (place == leftmost_ && speed < 0) speed = 0;
        state[0] = place;
        state[1] = speed;
        return {-1.0, place >= goal_ && speed >= goal_speed_};
    }

    void observe(const double* state, float* out) const override {
        out[0] = static_cast<float>(state[0]);
        out[1] = static_cast<float>(state[1]);
    }

   private:
    const double leftmost_, rightmost_, max_speed_, goal_, goal_speed_, force_, gravity_;
};

}  // namespace

std::unique_ptr<Rules> mountain_car(const Constants& constants) { return std::make_unique<MountainCar>(constants); }

}  // namespace engine
