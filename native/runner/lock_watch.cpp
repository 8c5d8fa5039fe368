// A watchdog thread that does not need the GIL: it aborts the process when no Python code has run for too long.
//
// Compiled code that hangs while it holds the GIL blocks every Python thread, the watchdog's included. Python code
// calls `feed` regularly.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kCheck{0.25};
constexpr Seconds kLongestCheck{1.0};  // a longer one means that the process was stopped or the machine was suspended

class LockWatch {
   public:
    LockWatch(double limit_seconds, std::string message)
        : limit_(limit_seconds), message_(std::move(message)), thread_([this] { run(); }) {}
    ~LockWatch() { close(); }

    void feed() { silent_ = 0.0; }

    void close() {
        {
            const std::lock_guard<std::mutex> held(mutex_);
            is_closed_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join();
    }

   private:
    void run() {
        std::unique_lock<std::mutex> held(mutex_);
        Clock::time_point checked_at = Clock::now();
        while (!changed_.wait_for(held, kCheck, [this] { return is_closed_; })) {
            const Clock::time_point now = Clock::now();
            const Seconds passed = std::min(Seconds(now - checked_at), kLongestCheck);
            checked_at = now;
            const double silent = silent_ + passed.count();
            silent_ = silent;
            if (silent >= limit_) end_process();
        }
    }

    [[noreturn]] void end_process() const {
        const ssize_t written = ::write(STDERR_FILENO, message_.data(), message_.size());
        static_cast<void>(written);  // nothing can be done about a failed write
        std::abort();                // faulthandler then prints the stack of each thread
    }

    const double limit_;
    const std::string message_;
    std::atomic<double> silent_{0.0};  // seconds since the last `feed`
    bool is_closed_ = false;           // guarded by mutex_
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread thread_;  // the last member: it uses the others
};

}  // namespace

NB_MODULE(lock_watch, module) {
    nb::class_<LockWatch>(module, "LockWatch")
        .def(nb::init<double, std::string>(), "limit_seconds"_a, "message"_a)
        .def("feed", &LockWatch::feed)
        .def("close", &LockWatch::close, nb::call_guard<nb::gil_scoped_release>());
}
