#include "crew.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace arena {

namespace {

constexpr int LOOKS = 64;         // between two looks at the clock
constexpr std::size_t LINE = 128;  // processors fetch pairs of lines of their caches

inline void breathe() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Looks until it is so, for a while; false when it was not.
template <typename Condition>
bool look(int microseconds, const Condition& is_so) {
    if (is_so()) return true;
    if (!microseconds) return false;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
    do {
        for (int k = 0; k < LOOKS; ++k) {
            if (is_so()) return true;
            breathe();
        }
    } while (std::chrono::steady_clock::now() < deadline);
    return false;
}

}  // namespace

// Whoever changes what a sleeper waits for looks for sleepers afterwards, and a sleeper looks once more after it has
// said that it sleeps; both in one order for all (seq_cst), so that one of the two sees the other.
struct Crew::Board {
    explicit Board(int numbers) : size(numbers), taken(numbers) {}

    const int size;
    std::atomic<int> eager{0};
    const std::function<void(int)>* job = nullptr;  // of this round, for whoever has taken a number of it
    alignas(LINE) std::atomic<std::uint64_t> round{0};
    std::vector<std::atomic<std::uint64_t>> taken;  // [size]: the last round in which somebody took the number
    alignas(LINE) std::atomic<int> unfinished{0};
    alignas(LINE) std::atomic<int> sleepers{0};
    std::atomic<bool> is_awaited{false}, closing{false};
    std::mutex mutex;
    std::condition_variable begin, done;

    std::uint64_t announce(const std::function<void(int)>& work);
    void help(std::uint64_t now, int own);
    void wait_behind(std::uint64_t seen);
    void await();
    void wake(std::condition_variable& who);
};

std::uint64_t Crew::Board::announce(const std::function<void(int)>& work) {
    job = &work;
    unfinished.store(size);
    const std::uint64_t now = round.fetch_add(1) + 1;
    if (sleepers.load()) wake(begin);
    return now;
}

// One's own number first, so that what it works on stays in one core's cache, then those that nobody has begun. A round
// ends when all its numbers are done: who has taken one finds its job, and who comes late finds none left.
void Crew::Board::help(std::uint64_t now, int own) {
    for (int k = 0; k < size; ++k) {
        const int number = (own + k) % size;
        std::uint64_t before = now - 1;
        if (!taken[number].compare_exchange_strong(before, now)) continue;
        (*job)(number);
        if (unfinished.fetch_sub(1) == 1 && is_awaited.load()) wake(done);
    }
}

void Crew::Board::wait_behind(std::uint64_t seen) {
    const auto is_new = [this, seen] { return round.load() != seen || closing.load(); };
    if (look(eager.load(), is_new)) return;
    std::unique_lock<std::mutex> lock(mutex);
    sleepers.fetch_add(1);
    begin.wait(lock, is_new);
    sleepers.fetch_sub(1);
}

void Crew::Board::await() {
    const auto is_done = [this] { return unfinished.load() == 0; };
    if (look(eager.load(), is_done)) return;
    std::unique_lock<std::mutex> lock(mutex);
    is_awaited.store(true);
    done.wait(lock, is_done);
    is_awaited.store(false);
}

void Crew::Board::wake(std::condition_variable& who) {
    { const std::lock_guard<std::mutex> lock(mutex); }  // whoever is about to sleep sleeps by now
    who.notify_all();
}

Crew::Crew(int size) : size_(size), board_(std::make_unique<Board>(size)) {}

Crew::~Crew() {
    if (threads_.empty()) return;
    if (owner_ != getpid()) {
        // A child after fork: the threads live in the parent. To join them, or to take down what they wait at, would
        // wait for ever.
        for (std::thread& thread : threads_) thread.detach();
        static_cast<void>(board_.release());
        return;
    }
    board_->closing.store(true);
    board_->wake(board_->begin);
    for (std::thread& thread : threads_) thread.join();
}

void Crew::set_eager(int microseconds) { board_->eager.store(microseconds); }

void Crew::hire() {
    owner_ = getpid();
    for (int number = 1; number < size_; ++number) {
        threads_.emplace_back([board = board_.get(), number] { work(*board, number); });
    }
}

void Crew::run(const std::function<void(int)>& job) {
    if (threads_.empty() && size_ > 1) hire();
    if (size_ == 1 || owner_ != getpid()) {
        for (int number = 0; number < size_; ++number) job(number);
        return;
    }
    board_->help(board_->announce(job), 0);
    board_->await();
}

void Crew::work(Board& board, int number) {
    std::uint64_t seen = 0;
    while (true) {
        board.wait_behind(seen);
        if (board.closing.load()) return;
        seen = board.round.load();
        board.help(seen, number);
    }
}

}  // namespace arena
