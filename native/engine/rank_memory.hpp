// Collectives among the ranks of one machine, through memory that they share.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "reducer.hpp"

namespace engine {

// Another rank failed, ended or did not answer.
struct PeerLostError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The memory is a file without a name that whoever started the ranks opened and passed on; it is empty at first. A rank
// that has joined holds a lock on its byte of the file, which the kernel gives up when the process ends, however it
// ends: so a rank that waits sees that another one is gone, without process ids, which may be reused.
class RankMemory : public Reducer {
   public:
    // `check_interrupt` is called now and then while this rank waits; what it throws ends the wait.
    RankMemory(int descriptor, int rank, int world_size, double timeout_seconds, std::function<void()> check_interrupt);
    ~RankMemory() override;
    RankMemory(const RankMemory&) = delete;
    RankMemory& operator=(const RankMemory&) = delete;

    int world_size() const override { return world_size_; }
    void sum(float* values, std::size_t count) override;
    void sum(double* values, std::size_t count) override;
    void average(float* values, std::size_t count) override;
    // What every rank gave, in the order of ranks; where `is_wanted` is not set, empty.
    std::vector<std::string> gather(const char* data, std::size_t size, bool is_wanted);
    // Returns when every rank has come here.
    void barrier();
    // Tells the others why this rank ends. The first failure stays.
    void post_failure(const std::string& message);
    // In barriers, since the beginning: mostly for whoever comes last.
    double waited_seconds() const { return waited_seconds_; }

   private:
    struct Control;
    struct Share {
        std::size_t begin, end;
    };
    template <typename T>
    void sum_chunks(T* values, std::size_t count, T factor);
    template <typename T>
    void sum_chunk(T* values, std::size_t count, T factor);
    template <typename T>
    void add_share(T* values, const Share& share, T factor, T* result) const;
    // In whole lines of `whole` numbers.
    Share share_of(int rank, std::size_t count, std::size_t whole) const;
    int first_missing(std::uint64_t round) const;  // rank, or -1
    void wait(std::uint64_t round);
    void refuse_lost(std::uint64_t round) const;
    bool is_locked(int rank) const;
    char* slot(int rank) const;
    char* result() const { return slot(world_size_); }

    const int descriptor_, rank_, world_size_;
    const double timeout_seconds_;
    const std::function<void()> check_interrupt_;
    const std::size_t size_;
    Control* control_ = nullptr;
    std::uint64_t round_ = 0;
    double waited_seconds_ = 0;
};

}  // namespace engine
