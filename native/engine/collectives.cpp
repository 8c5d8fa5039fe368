#include "collectives.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <emmintrin.h>
#include <fcntl.h>
#include <sched.h>
#include <sstream>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#if defined(__x86_64__)
#endif

namespace engine {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int MAX_RANKS = 4096;
constexpr std::size_t CHUNK = 1 << 20;  // bytes of a rank's slot; unused pages take no memory
constexpr std::size_t LINE = 128;       // bytes; prefetchers load pairs of cache lines
constexpr std::size_t MESSAGE = 4096;   // longest failure message
constexpr int SPINS_PER_CLOCK_READ = 64;
// Seconds. A waiting rank first spins, then yields, then sleeps for an eighth of the time it has waited.
constexpr double SPIN = 20e-6, YIELD = 500e-6, SHORTEST_SLEEP = 50e-6, LONGEST_SLEEP = 2e-3;
constexpr double CHECK_INTERVAL = 0.02;  // between two checks that the other ranks are alive

void pause_core() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

double seconds_since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

void rest(double waited) {
    if (waited < SPIN) return;
    if (waited < YIELD) {
        sched_yield();
        return;
    }
    const double seconds = std::min(std::max(waited / 8, SHORTEST_SLEEP), LONGEST_SLEEP);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Copies past this core's cache, because another core reads the data next: a modified line in another core's cache
// takes five times as long as memory (EPYC, 142,000 floats: a sum takes 258 µs with memcpy, 48 µs with this). `to` is
// aligned.
void stream(void* to, const void* from, std::size_t size) {
    std::size_t done = 0;
#if defined(__x86_64__)
    const auto* source = static_cast<const char*>(from);
    auto* target = static_cast<char*>(to);
    for (; done + sizeof(__m128i) <= size; done += sizeof(__m128i)) {
        const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + done));
        _mm_stream_si128(reinterpret_cast<__m128i*>(target + done), some);
    }
#endif
    std::memcpy(static_cast<char*>(to) + done, static_cast<const char*>(from) + done, size - done);
}

// Releasing an atomic does not wait for streaming stores.
void end_streaming() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

[[noreturn]] void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

struct flock lock_of(int rank, short type) {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    return lock;
}

}  // namespace

struct SharedMemoryCollectives::Control {
    struct alignas(LINE) RankEntry {
        std::atomic<std::uint64_t> arrived;  // number of barriers that this rank has reached
        std::atomic<std::uint32_t> has_joined;
    };
    enum : std::uint32_t { NONE, IN_WRITING, WRITTEN };
    std::atomic<std::uint32_t> failure;
    std::int32_t failed_rank;
    char message[MESSAGE];
    RankEntry ranks[1];  // [world_size]; followed by slots of CHUNK bytes for each rank and for the result

    static std::size_t size(int world_size) {
        const std::size_t bytes = sizeof(Control) + world_size * sizeof(RankEntry);
        return (bytes + 4095) / 4096 * 4096;
    }
};

// Every rank sets the same size; the new file is zero.
SharedMemoryCollectives::SharedMemoryCollectives(int descriptor, int rank, int world_size, double timeout_seconds,
                                                 std::function<void()> check_interrupt)
    : descriptor_(descriptor),
      rank_(rank),
      world_size_(world_size),
      timeout_seconds_(timeout_seconds),
      check_interrupt_(std::move(check_interrupt)),
      size_(Control::size(std::min(std::max(world_size, 1), MAX_RANKS)) + (world_size + 1) * CHUNK) {
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share no locks");
    if (world_size < 1 || world_size > MAX_RANKS || rank < 0 || rank >= world_size) {
        throw std::invalid_argument("rank=" + std::to_string(rank) + " of world_size=" + std::to_string(world_size) +
                                    " (rank must be from 0 to world_size - 1, world_size from 1 to " +
                                    std::to_string(MAX_RANKS) + ")");
    }
    if (ftruncate(descriptor_, static_cast<off_t>(size_))) throw_errno("ftruncate");
    struct flock lock = lock_of(rank_, F_WRLCK);
    if (fcntl(descriptor_, F_SETLK, &lock)) throw_errno("fcntl");
    void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (mapped == MAP_FAILED) throw_errno("mmap");
    control_ = static_cast<Control*>(mapped);
    control_->ranks[rank_].has_joined.store(1);
}

SharedMemoryCollectives::~SharedMemoryCollectives() {
    munmap(control_, size_);
    close(descriptor_);  // releases the lock
}

char* SharedMemoryCollectives::slot(int rank) const {
    return reinterpret_cast<char*>(control_) + Control::size(world_size_) + rank * CHUNK;
}

int SharedMemoryCollectives::first_missing(std::uint64_t round) const {
    for (int rank = 0; rank < world_size_; ++rank) {
        if (control_->ranks[rank].arrived.load(std::memory_order_acquire) < round) return rank;
    }
    return -1;
}

bool SharedMemoryCollectives::is_locked(int rank) const {
    struct flock lock = lock_of(rank, F_WRLCK);
    return fcntl(descriptor_, F_GETLK, &lock) || lock.l_type != F_UNLCK;
}

void SharedMemoryCollectives::throw_if_lost(std::uint64_t round) const {
    if (control_->failure.load(std::memory_order_acquire) == Control::WRITTEN) {
        throw PeerLostError("Rank " + std::to_string(control_->failed_rank) + " failed first: " + control_->message);
    }
    for (int rank = 0; rank < world_size_; ++rank) {
        const Control::RankEntry& entry = control_->ranks[rank];
        if (rank == rank_ || !entry.has_joined.load() || is_locked(rank)) continue;
        if (entry.arrived.load(std::memory_order_acquire) <
            round) {  // otherwise it passed the barrier and exited later
            throw PeerLostError("Rank " + std::to_string(rank) + " exited without reporting an error.");
        }
    }
}

void SharedMemoryCollectives::wait(std::uint64_t round) {
    const Clock::time_point began = Clock::now();
    double checked = 0;
    int missing;
    do {
        for (int spin = 0; spin < SPINS_PER_CLOCK_READ; ++spin) {
            missing = first_missing(round);
            if (missing < 0) break;
            pause_core();
        }
        const double waited = seconds_since(began);
        if (missing < 0) {
            waited_seconds_ += waited;
            return;
        }
        if (waited - checked > CHECK_INTERVAL) {
            checked = waited;
            if (check_interrupt_) check_interrupt_();
            throw_if_lost(round);
        }
        if (waited > timeout_seconds_) {
            std::ostringstream message;
            message << "Rank " << missing << " did not answer within " << timeout_seconds_
                    << " s (distributed.timeout_seconds).";
            throw PeerLostError(message.str());
        }
        rest(waited);
    } while (true);
}

void SharedMemoryCollectives::barrier() {
    round_ += 1;
    control_->ranks[rank_].arrived.store(round_, std::memory_order_release);
    if (first_missing(round_) >= 0) wait(round_);
}

SharedMemoryCollectives::Share SharedMemoryCollectives::share_of(int rank, std::size_t count, std::size_t whole) const {
    const std::size_t lines = (count + whole - 1) / whole;
    return {std::min(count, lines * rank / world_size_ * whole),
            std::min(count, lines * (rank + 1) / world_size_ * whole)};
}

// Reduce-scatter and all-gather: each rank publishes its numbers, adds up its own share over all ranks in their order,
// and copies the other shares. Slots are free after the second barrier, the result after the first barrier of the next
// call.
template <typename T>
void SharedMemoryCollectives::sum_chunk(T* values, std::size_t count, T factor) {
    constexpr std::size_t WHOLE = LINE / sizeof(T);  // shares end at cache lines
    T* const own_slot = reinterpret_cast<T*>(slot(rank_));
    T* const sums = reinterpret_cast<T*>(result());
    const Share own = share_of(rank_, count, WHOLE);
    stream(own_slot, values, own.begin * sizeof(T));
    stream(own_slot + own.end, values + own.end, (count - own.end) * sizeof(T));
    end_streaming();
    barrier();
    add_share(values, own, factor, sums);
    end_streaming();
    barrier();
    std::memcpy(values, sums, own.begin * sizeof(T));
    std::memcpy(values + own.end, sums + own.end, (count - own.end) * sizeof(T));
}

template <typename T>
void SharedMemoryCollectives::add_share(T* values, const Share& share, T factor, T* result) const {
    constexpr std::size_t BLOCK = 256;
    T sums[BLOCK];
    for (std::size_t first = share.begin; first < share.end; first += BLOCK) {
        const std::size_t some = std::min(BLOCK, share.end - first);
        for (int rank = 0; rank < world_size_; ++rank) {
            const T* part = (rank == rank_ ? values : reinterpret_cast<const T*>(slot(rank))) + first;
            if (rank == 0) {
                std::memcpy(sums, part, some * sizeof(T));
            } else {
                for (std::size_t k = 0; k < some; ++k) sums[k] += part[k];
            }
        }
        for (std::size_t k = 0; k < some; ++k) sums[k] *= factor;
        std::memcpy(values + first, sums, some * sizeof(T));
        stream(result + first, sums, some * sizeof(T));
    }
}

template <typename T>
void SharedMemoryCollectives::sum_chunks(T* values, std::size_t count, T factor) {
    constexpr std::size_t MOST = CHUNK / sizeof(T);
    for (std::size_t first = 0; first < count; first += MOST) {
        sum_chunk(values + first, std::min(MOST, count - first), factor);
    }
}

void SharedMemoryCollectives::sum(float* values, std::size_t count) { sum_chunks(values, count, 1.0f); }
void SharedMemoryCollectives::sum(double* values, std::size_t count) { sum_chunks(values, count, 1.0); }
void SharedMemoryCollectives::average(float* values, std::size_t count) {
    sum_chunks(values, count, 1.0f / static_cast<float>(world_size_));
}

std::vector<std::string> SharedMemoryCollectives::gather(const char* data, std::size_t size, bool is_wanted) {
    constexpr std::size_t HEAD = sizeof(std::uint64_t), MOST = CHUNK - HEAD;
    std::vector<std::string> parts(world_size_);
    bool has_more = true;
    for (std::size_t first = 0; has_more; first += MOST) {
        const std::uint64_t left = first < size ? size - first : 0;
        std::memcpy(slot(rank_), &left, HEAD);
        if (left) std::memcpy(slot(rank_) + HEAD, data + first, std::min<std::size_t>(left, MOST));
        barrier();
        has_more = false;
        for (int rank = 0; rank < world_size_; ++rank) {
            std::uint64_t other;
            std::memcpy(&other, slot(rank), HEAD);
            has_more = has_more || other > MOST;
            if (is_wanted) parts[rank].append(slot(rank) + HEAD, std::min<std::size_t>(other, MOST));
        }
        barrier();  // all ranks have read the slots
    }
    return parts;
}

void SharedMemoryCollectives::post_failure(const std::string& message) {
    std::uint32_t none = Control::NONE;
    if (!control_->failure.compare_exchange_strong(none, Control::IN_WRITING)) return;
    const std::size_t length = std::min(message.size(), MESSAGE - 1);
    control_->failed_rank = rank_;
    std::memcpy(control_->message, message.data(), length);
    control_->message[length] = '\0';
    control_->failure.store(Control::WRITTEN, std::memory_order_release);
}

}  // namespace engine
