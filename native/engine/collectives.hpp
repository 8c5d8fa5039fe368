// Sums over all ranks that train together, and collectives in memory shared by the ranks of one machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace engine {

// Sums over all ranks, used between two minibatches. Every rank makes the same calls in the same order, and gets
// bitwise equal results.
class Reducer {
   public:
    virtual ~Reducer() = default;
    virtual int world_size() const = 0;
    // In place: the sum over all ranks. Throws if another rank is lost.
    virtual void sum(float* values, std::size_t count) = 0;
    virtual void sum(double* values, std::size_t count) = 0;
    // In place: the mean over all ranks.
    virtual void average(float* values, std::size_t count) = 0;
};

// Another rank failed, exited or did not answer.
struct PeerLostError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Collectives of the ranks of one machine. The memory is an unnamed file, empty at first, that the launcher opens and
// passes to the ranks. A rank that has joined holds a lock on its byte of the file, which the kernel releases when the
// process ends, however it ends. So waiting ranks detect a lost one without process ids, which may be reused.
class SharedMemoryCollectives : public Reducer {
   public:
    // `check_interrupt` is called regularly while this rank waits; an exception from it ends the wait.
    SharedMemoryCollectives(int descriptor, int rank, int world_size, double timeout_seconds,
                            std::function<void()> check_interrupt);
    ~SharedMemoryCollectives() override;
    SharedMemoryCollectives(const SharedMemoryCollectives&) = delete;
    SharedMemoryCollectives& operator=(const SharedMemoryCollectives&) = delete;

    int world_size() const override { return world_size_; }
    void sum(float* values, std::size_t count) override;
    void sum(double* values, std::size_t count) override;
    void average(float* values, std::size_t count) override;
    // The data of every rank, in the order of ranks; empty strings unless `is_wanted`.
    std::vector<std::string> gather(const char* data, std::size_t size, bool is_wanted);
    // Returns when all ranks have called it.
    void barrier();
    // Tells the other ranks why this one fails. The first failure is kept.
    void post_failure(const std::string& message);
    // Total time spent waiting in barriers.
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
    // Shares are multiples of `whole` numbers.
    Share share_of(int rank, std::size_t count, std::size_t whole) const;
    int first_missing(std::uint64_t round) const;  // rank, or -1
    void wait(std::uint64_t round);
    void throw_if_lost(std::uint64_t round) const;
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
