#include <algorithm>
#include <cmath>

#include "rules.hpp"

namespace engine {

namespace {

constexpr double PI = 3.141592653589793;

double wrapped(double angle) {
    while (angle > PI) angle -= PI - -PI;
    while (angle < -PI) angle += PI - -PI;
    return angle;
}

// The dynamics of the book, as Gymnasium has them by default; integrated by Runge and Kutta's fourth order.
class Acrobot : public Rules {
   public:
    explicit Acrobot(const Constants& constants)
        : dt_(constants["dt"]),
          length1_(constants["LINK_LENGTH_1"]),
          mass1_(constants["LINK_MASS_1"]),
          mass2_(constants["LINK_MASS_2"]),
          centre1_(constants["LINK_COM_POS_1"]),
          centre2_(constants["LINK_COM_POS_2"]),
          inertia_(constants["LINK_MOI"]),
          max_speed1_(constants["MAX_VEL_1"]),
          max_speed2_(constants["MAX_VEL_2"]) {}

    int state_size() const override { return 4; }
    int observation_size() const override { return 6; }

    void begin(double* state, Pcg64& dice) const override {
        // Gymnasium rounds the first state to single precision.
        for (int k = 0; k < 4; ++k) state[k] = static_cast<float>(dice.uniform(-0.1, 0.1));
    }

    Outcome step(double* state, const Action& action) const override {
        const double torque = static_cast<double>(action.choice - 1), half = dt_ / 2.0;
        double first[4], second[4], third[4], fourth[4], there[4];
        slopes(state, torque, first);
        for (int k = 0; k < 4; ++k) there[k] = state[k] + half * first[k];
        slopes(there, torque, second);
        for (int k = 0; k < 4; ++k) there[k] = state[k] + half * second[k];
        slopes(there, torque, third);
        for (int k = 0; k < 4; ++k) there[k] = state[k] + dt_ * third[k];
        slopes(there, torque, fourth);
        for (int k = 0; k < 4; ++k) {
            state[k] = state[k] + dt_ / 6.0 * (first[k] + 2 * second[k] + 2 * third[k] + fourth[k]);
        }
        state[0] = wrapped(state[0]);
        state[1] = wrapped(state[1]);
        state[2] = std::min(std::max(state[2], -max_speed1_), max_speed1_);
        state[3] = std::min(std::max(state[3], -max_speed2_), max_speed2_);
        const bool is_up = -std::cos(state[0]) - std::cos(state[1] + state[0]) > 1.0;
        return {is_up ? 0.0 : -1.0, is_up};
    }

    void observe(const double* state, float* out) const override {
        out[0] = static_cast<float>(std::cos(state[0]));
        out[1] = static_cast<float>(std::sin(state[0]));
        out[2] = static_cast<float>(std::cos(state[1]));
        out[3] = static_cast<float>(std::sin(state[1]));
        out[4] = static_cast<float>(state[2]);
        out[5] = static_cast<float>(state[3]);
    }

   private:
    void slopes(const double* state, double torque, double* out) const {
        const double angle1 = state[0], angle2 = state[1], speed1 = state[2], speed2 = state[3];
        const double m1 = mass1_, m2 = mass2_, l1 = length1_, lc1 = centre1_, lc2 = centre2_, g = 9.8;
        const double d1 = m1 * squared(lc1) + m2 * (squared(l1) + squared(lc2) + 2 * l1 * lc2 * std::cos(angle2)) +
                          inertia_ + inertia_;
        const double d2 = m2 * (squared(lc2) + l1 * lc2 * std::cos(angle2)) + inertia_;
        const double phi2 = m2 * lc2 * g * std::cos(angle1 + angle2 - PI / 2.0);
        const double phi1 = -m2 * l1 * lc2 * squared(speed2) * std::sin(angle2) -
                            2 * m2 * l1 * lc2 * speed2 * speed1 * std::sin(angle2) +
                            (m1 * lc1 + m2 * l1) * g * std::cos(angle1 - PI / 2) + phi2;
        const double turned2 =
            (torque + d2 / d1 * phi1 - m2 * l1 * lc2 * squared(speed1) * std::sin(angle2) - phi2) /
            (m2 * squared(lc2) + inertia_ - squared(d2) / d1);
        out[0] = speed1;
        out[1] = speed2;
        out[2] = -(d2 * turned2 + phi1) / d1;
        out[3] = turned2;
    }

    const double dt_, length1_, mass1_, mass2_, centre1_, centre2_, inertia_, max_speed1_, max_speed2_;
};

}  // namespace

std::unique_ptr<Rules> acrobot(const Constants& constants) { return std::make_unique<Acrobot>(constants); }

}  // namespace engine
