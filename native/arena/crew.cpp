#include "crew.hpp"

#include <unistd.h>

#include <condition_variable>
#include <mutex>

namespace arena {

struct Crew::Board {
    std::mutex mutex;
    std::condition_variable begin, done;
    const std::function<void(int)>* job = nullptr;
    unsigned long round = 0;
    int busy = 0;
    bool closing = false;
};

Crew::Crew(int size) : size_(size), board_(std::make_unique<Board>()) {}

Crew::~Crew() {
    if (threads_.empty()) return;
    if (owner_ != getpid()) {
        // A child after fork: the threads live in the parent. To join them, or to take down what they wait at, would
        // wait for ever.
        for (std::thread& thread : threads_) thread.detach();
        static_cast<void>(board_.release());
        return;
    }
    {
        const std::lock_guard<std::mutex> lock(board_->mutex);
        board_->closing = true;
    }
    board_->begin.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

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
    {
        const std::lock_guard<std::mutex> lock(board_->mutex);
        board_->job = &job;
        board_->busy = size_ - 1;
        ++board_->round;
    }
    board_->begin.notify_all();
    job(0);
    std::unique_lock<std::mutex> lock(board_->mutex);
    board_->done.wait(lock, [this] { return board_->busy == 0; });
}

void Crew::work(Board& board, int number) {
    unsigned long seen = 0;
    std::unique_lock<std::mutex> lock(board.mutex);
    while (true) {
        board.begin.wait(lock, [&board, seen] { return board.closing || board.round != seen; });
        if (board.closing) return;
        seen = board.round;
        const std::function<void(int)>& job = *board.job;
        lock.unlock();
        job(number);
        lock.lock();
        if (--board.busy == 0) board.done.notify_one();
    }
}

}  // namespace arena
