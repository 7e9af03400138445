#include "emulator/emulator.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "emulator/wgmma.h"

// Of the thread that runs: device_language.h has them by the language's names.
// NOLINTBEGIN(readability-identifier-naming, misc-use-internal-linkage)
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
// NOLINTEND(readability-identifier-naming, misc-use-internal-linkage)

namespace mobicuda::emulator {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kWarpgroup = 128;
constexpr std::size_t kWord = 4;
constexpr int kBarriers = 16;
constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kColour = 576;  // stacks that began alike would share few lines of the cache
// A shared address: rank of the block and offset, which begins behind what the driver takes. Static variables have
// addresses of their own, seen from one of them.
constexpr unsigned kRankBit = 24;
constexpr std::uint32_t kOffsetMask = (1U << kRankBit) - 1;
constexpr std::uint32_t kFirstOffset = 1024;
constexpr std::uint32_t kStatic = 1U << 31U;
constexpr std::uint32_t kStaticAnchor = 1U << 30U;

alignas(1024) char static_anchor;  // addresses of static shared memory are told from here, with their alignment

/// One stack. Switching saves no signals, unlike swapcontext(), which is for the first entry only.
class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
    if (stack_ != nullptr) munmap(stack_, kStackBytes);
  }

  void prepare(void (*entry)(), std::size_t colour) {
    if (stack_ == nullptr) {
      stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (stack_ == MAP_FAILED) throw std::bad_alloc();
    }
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = kStackBytes - colour;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
    entered_ = false;
  }

  __attribute__((noinline)) static void switch_between(Fiber& from, Fiber& to) {
    if (__builtin_setjmp(from.jump_) == 0) to.enter();
  }

 private:
  __attribute__((noinline)) void enter() {
    if (entered_) __builtin_longjmp(jump_, 1);
    entered_ = true;
    setcontext(&context_);
  }

  void* jump_[5]{};
  ucontext_t context_{};
  void* stack_ = nullptr;
  bool entered_ = true;  // the scheduler's has always begun
};

/// Over when (*word & mask) != value.
struct Wait {
  const std::uint32_t* word = nullptr;
  std::uint32_t mask = ~0U;
  std::uint32_t value = 0;

  bool over() const { return word == nullptr || (*word & mask) != value; }
};

struct Meet {
  Meeting meeting = nullptr;
  std::array<void*, kLanes> operands{};  // of those that have come
  unsigned came = 0;
  std::uint32_t round = 0;
};

struct Barrier {
  unsigned came = 0;
  std::uint32_t round = 0;
};

/// In shared memory.
struct MBarrier {
  std::uint32_t phase : 1;
  std::uint32_t total : 15;
  std::uint32_t pending : 16;
  std::int32_t bytes;
};
static_assert(sizeof(MBarrier) == 8);

struct Block;
struct Warp;

struct Copy {
  int group = 0;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0, zeros = 0;
};

struct Thread {
  uint3 index{};
  Block* block = nullptr;
  Warp* warp = nullptr;
  unsigned number = 0;  // in the block
  unsigned lane = 0;
  Fiber fiber;
  Wait wait;
  bool ended = false;
  std::uint32_t cluster_round = 0;
  std::vector<Copy> copies;
  std::size_t done = 0;  // of them
  int group = 0;
  std::vector<bool> read;        // copies from shared memory as they were started: whether they are done
  std::size_t awaited = 0;       // of them, from the first on
  std::uint32_t is_reading = 0;  // whether one of those is under way
  std::uint16_t fences = 0;      // of the async proxy, from 1 on

  void tell_reading() {
    const auto first = read.begin();
    is_reading = std::all_of(first, first + static_cast<std::ptrdiff_t>(awaited), [](bool is) { return is; }) ? 0 : 1;
  }
};

/// Which thread wrote a word of shared memory last, and how many fences of its own were before.
struct Writer {
  std::uint16_t thread = 0;
  std::uint16_t fences = 0;  // 0: nobody
};

struct Warp {
  std::array<Thread*, kLanes> lanes{};
  unsigned count = 0, ended = 0;
  Meet meet;
  WarpProducts products;
};

struct Block {
  uint3 index{};
  unsigned rank = 0;
  unsigned count = 0, ended = 0;
  std::vector<Warp> warps;
  std::array<Barrier, kBarriers> barriers{};
  std::vector<unsigned char> memory;
  unsigned char* shared = nullptr;
  std::size_t shared_bytes = 0;
  std::vector<Writer> writers;  // of each word of it
  std::vector<Warpgroup> warpgroups;
};

struct Machine {
  std::deque<Thread> threads;  // of all blocks of the cluster
  std::deque<Block> blocks;
  Barrier cluster;
  unsigned living = 0;
  std::vector<std::function<void()>> deliveries;
  Fiber scheduler;
  const std::function<void()>* kernel = nullptr;
  std::string fault;
  std::mt19937 random{1};

  unsigned draw(unsigned below) { return static_cast<unsigned>(random() % below); }
};

Machine& machine() {
  static Machine only;
  return only;
}

// Not the machine's, as it is looked for at every step. Volatile: another one is back from a call that switches between
// threads, which the compiler does not see.
Thread* volatile current_thread = nullptr;

Thread& self() { return *current_thread; }
/// Null where the cluster has none of this rank.
Block* block_of(unsigned rank) {
  Block& own = *self().block;
  if (rank == own.rank) return &own;
  std::deque<Block>& blocks = machine().blocks;
  return rank < blocks.size() ? &blocks[rank] : nullptr;
}
Warp& own_warp() { return *self().warp; }

void switch_to(Fiber& from, Thread& next) {
  current_thread = &next;
  threadIdx = next.index;
  blockIdx = next.block->index;
  next.wait = {};
  Fiber::switch_between(from, next.fiber);
}

void back_to_scheduler() { Fiber::switch_between(self().fiber, machine().scheduler); }

/// Lets others go on: the lanes of the warp first.
void block_until(const Wait& wait) {
  if (wait.over()) return;
  Thread& thread = self();
  thread.wait = wait;
  const Warp& warp = *thread.warp;
  unsigned at = thread.lane;
  for (unsigned i = 1; i < warp.count; ++i) {
    if (++at == warp.count) at = 0;
    Thread& next = *warp.lanes[at];
    if (next.ended || !next.wait.over()) continue;
    switch_to(thread.fiber, next);
    return;
  }
  back_to_scheduler();
}

void complete(Barrier& barrier) {
  barrier.came = 0;
  ++barrier.round;
}

unsigned expected(const Block& block, int barrier, int threads) {
  return barrier == 0 && threads == 0 ? block.count - block.ended : static_cast<unsigned>(threads);
}

void end_thread() {
  wait_for_copies(-1);
  Thread& thread = self();
  Warp& warp = own_warp();
  Block& block = *thread.block;
  if (std::find(thread.read.begin(), thread.read.end(), false) != thread.read.end())
    fail("a thread ended before its copies from shared memory did");
  if (++warp.ended == warp.count && warp.products.under_way()) fail("a warp ended before its products did");
  if (++block.ended == block.count) {
    for (const Warpgroup& group : block.warpgroups) {
      if (!group.is_even()) fail("a product that not all warps of the warpgroup have begun");
    }
  }
  thread.ended = true;  // where it has failed its fiber begins anew
  --machine().living;
  if (warp.meet.came > 0 && warp.meet.came == warp.count - warp.ended) {
    warp.meet.meeting(warp.meet.operands.data());
    warp.meet = {nullptr, {}, 0, warp.meet.round + 1};
  }
  Barrier& all = block.barriers[0];
  if (all.came > 0 && all.came == block.count - block.ended) complete(all);
  if (machine().cluster.came > 0 && machine().cluster.came == machine().living) complete(machine().cluster);
  back_to_scheduler();
}

/// A fiber runs one thread after the other.
void thread_entry() {
  for (;;) {
    (*machine().kernel)();
    end_thread();
  }
}

void meet(Meet& where, unsigned own, unsigned wanted, Meeting meeting, void* operand) {
  if (where.came == 0) where.meeting = meeting;
  if (where.meeting != meeting) fail("lanes of a warp are at different collective instructions");
  where.operands[own] = operand;
  if (++where.came < wanted) {
    block_until({&where.round, ~0U, where.round});
    return;
  }
  meeting(where.operands.data());
  where.operands = {};
  where.came = 0;
  ++where.round;
}

/// Delivers what is under way, in any order: all of it, or by chance some.
bool deliver(bool all) {
  std::vector<std::function<void()>>& waiting = machine().deliveries;
  bool any = false;
  while (!waiting.empty() && (all || machine().draw(2) == 0)) {
    const std::size_t which = machine().draw(static_cast<unsigned>(waiting.size()));
    std::swap(waiting[which], waiting.back());
    const std::function<void()> delivery = std::move(waiting.back());
    waiting.pop_back();
    delivery();
    any = true;
  }
  return any;
}

void schedule() {
  Machine& m = machine();
  std::vector<std::pair<Block*, std::size_t>> warps;
  for (Block& block : m.blocks) {
    for (std::size_t i = 0; i < block.warps.size(); ++i) warps.emplace_back(&block, i);
  }
  while (m.living > 0 && m.fault.empty()) {
    bool progress = deliver(false);
    std::shuffle(warps.begin(), warps.end(), m.random);
    for (const auto& [block, number] : warps) {
      Warp& warp = block->warps[number];
      for (unsigned i = 0; i < warp.count && m.fault.empty(); ++i) {
        Thread& thread = *warp.lanes.at(i);
        if (thread.ended || !thread.wait.over()) continue;
        progress = true;
        switch_to(m.scheduler, thread);
      }
    }
    if (!progress && !deliver(true) && m.fault.empty()) {
      m.fault = std::to_string(m.living) + " threads wait for what never comes";
    }
  }
  if (m.fault.empty()) deliver(true);
}

void prepare_block(const Configuration& c, uint3 index, unsigned rank, unsigned threads) {
  Machine& m = machine();
  Block& block = m.blocks.at(rank);
  block.index = index;
  block.rank = rank;
  block.count = threads;
  block.ended = 0;
  block.barriers = {};
  block.shared_bytes = c.shared_bytes;
  constexpr std::size_t kAlignment = 1024;
  block.memory.assign(c.shared_bytes + kAlignment, 0xFF);
  void* start = block.memory.data();
  std::size_t space = block.memory.size();
  block.shared = static_cast<unsigned char*>(std::align(kAlignment, c.shared_bytes, start, space));
  block.warps.clear();
  block.warps.resize((threads + kLanes - 1) / kLanes);
  block.writers.assign(c.shared_bytes / kWord + 1, {});
  block.warpgroups.assign((threads + kWarpgroup - 1) / kWarpgroup, {});
  for (unsigned i = 0; i < threads; ++i) {
    Thread& thread = m.threads.at(std::size_t{rank} * threads + i);
    thread.index = {i % c.block.x, i / c.block.x % c.block.y, i / c.block.x / c.block.y};
    thread.block = &block;
    thread.number = i;
    thread.wait = {};
    if (!thread.ended)
      thread.fiber.prepare(thread_entry, i % kLanes * kColour);  // it is new, or stands where a kernel failed
    thread.ended = false;
    thread.copies.clear();
    thread.done = 0;
    thread.group = 0;
    thread.read.clear();
    thread.awaited = 0;
    thread.is_reading = 0;
    thread.fences = 1;
    Warp& warp = block.warps[i / kLanes];
    thread.warp = &warp;
    thread.lane = warp.count++;
    warp.lanes.at(thread.lane) = &thread;
  }
}

}  // namespace

unsigned lane() { return self().lane; }
unsigned rank_in_cluster() { return self().block->rank; }

const std::string& last_fault() { return machine().fault; }

std::vector<const void*>& lines_brought() {
  static std::vector<const void*> lines;
  return lines;
}

void fail(const std::string& why) {
  Machine& m = machine();
  const uint3 block = self().block->index;
  if (m.fault.empty()) {
    m.fault = "block " + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " + std::to_string(block.z) +
              ", thread " + std::to_string(self().number) + ": " + why;
  }
  back_to_scheduler();
  __builtin_unreachable();
}

bool run(const Configuration& c, const std::function<void()>& kernel) {
  Machine& m = machine();
  m.kernel = &kernel;
  m.fault.clear();
  blockDim = c.block;
  gridDim = c.grid;
  const unsigned threads = c.block.x * c.block.y * c.block.z;
  const unsigned blocks = c.grid.x * c.grid.y * c.grid.z;
  if (threads == 0 || blocks == 0 || threads > 1024 || c.grid.x % c.cluster_blocks != 0) {
    m.fault = "no such launch";
    return false;
  }
  // Deques that only grow: fibers keep their addresses and stacks.
  while (m.threads.size() < std::size_t{threads} * c.cluster_blocks) m.threads.emplace_back();
  m.blocks.resize(c.cluster_blocks);
  std::vector<unsigned> order(blocks / c.cluster_blocks);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), m.random);
  for (const unsigned cluster : order) {
    m.cluster = {};
    m.deliveries.clear();
    for (unsigned rank = 0; rank < c.cluster_blocks; ++rank) {
      const unsigned number = cluster * c.cluster_blocks + rank;
      prepare_block(c, {number % c.grid.x, number / c.grid.x % c.grid.y, number / c.grid.x / c.grid.y}, rank, threads);
    }
    m.living = threads * c.cluster_blocks;
    schedule();
    if (!m.fault.empty()) return false;
  }
  return true;
}

void meet_in_warp(Meeting meeting, void* operand) {
  const Thread& thread = self();
  Warp& warp = *thread.warp;
  meet(warp.meet, thread.lane, warp.count - warp.ended, meeting, operand);
}

void sync_threads() { sync_threads_of(0, 0); }

void sync_threads_of(int number, int threads) {
  Block& block = *self().block;
  Barrier& barrier = block.barriers.at(static_cast<std::size_t>(number));
  const std::uint32_t round = barrier.round;
  if (++barrier.came == expected(block, number, threads)) complete(barrier);
  block_until({&barrier.round, ~0U, round});
}

void arrive_for_threads_of(int number, int threads) {
  Block& block = *self().block;
  Barrier& barrier = block.barriers.at(static_cast<std::size_t>(number));
  if (++barrier.came == expected(block, number, threads)) complete(barrier);
}

void require_cluster(const std::string& what) {
  if (machine().blocks.size() == 1) fail(what + " in a launch without clusters");
}

void arrive_at_cluster() {
  require_cluster("a barrier of a cluster");
  Barrier& barrier = machine().cluster;
  self().cluster_round = barrier.round;
  if (++barrier.came == machine().living) {
    deliver(true);
    complete(barrier);
  }
}

void wait_for_cluster() { block_until({&machine().cluster.round, ~0U, self().cluster_round}); }

void* dynamic_shared() { return self().block->shared; }

std::uint32_t shared_address(const void* pointer) {
  const Block& block = *self().block;
  const auto* const at = static_cast<const unsigned char*>(pointer);
  if (at >= block.shared && at <= block.shared + block.shared_bytes) {
    return block.rank << kRankBit | (kFirstOffset + static_cast<std::uint32_t>(at - block.shared));
  }
  return kStatic | (kStaticAnchor + static_cast<std::uint32_t>(at - reinterpret_cast<unsigned char*>(&static_anchor)));
}

void* shared_at(std::uint32_t address, std::size_t bytes) {
  if ((address & kStatic) != 0) {
    return &static_anchor + static_cast<std::int32_t>((address & ~kStatic) - kStaticAnchor);
  }
  const std::uint32_t rank = address >> kRankBit;
  const std::uint32_t offset = (address & kOffsetMask) - kFirstOffset;
  const Block* const block = block_of(rank);
  if (block == nullptr || offset + bytes > block->shared_bytes || (address & kOffsetMask) < kFirstOffset) {
    fail(std::to_string(bytes) + " bytes at " + std::to_string(static_cast<std::int32_t>(offset)) + " of " +
         std::to_string(self().block->shared_bytes) + " bytes of shared memory of block " + std::to_string(rank));
  }
  if (block->ended == block->count) fail("shared memory of a block that has ended");
  return block->shared + offset;
}

namespace {

/// Calls visit(writer) for the words of a place in dynamic shared memory.
template <class Visit>
void for_each_writer(std::uint32_t address, std::size_t bytes, const Visit& visit) {
  if ((address & kStatic) != 0) return;
  Block& block = *block_of(address >> kRankBit);
  const std::size_t offset = (address & kOffsetMask) - kFirstOffset;
  for (std::size_t word = offset / kWord; word <= (offset + bytes - 1) / kWord; ++word) visit(block.writers[word]);
}

}  // namespace

void note_write(std::uint32_t address, std::size_t bytes) {
  const Thread& thread = self();
  const Writer own{static_cast<std::uint16_t>(thread.number), thread.fences};
  for_each_writer(address, bytes, [&](Writer& writer) { writer = own; });
}

void fence_async_proxy() { ++self().fences; }

void* shared_for_engine(std::uint32_t address, std::size_t bytes) {
  Block& block = *self().block;
  const std::uint32_t own = (address & kOffsetMask) | block.rank << kRankBit;
  void* const at = shared_at(own, bytes);
  Writer before;  // whose words are often many
  for_each_writer(own, bytes, [&](const Writer& writer) {
    if (writer.fences == 0 || (writer.thread == before.thread && writer.fences == before.fences)) return;
    before = writer;
    const Thread& thread = *block.warps[writer.thread / kLanes].lanes.at(writer.thread % kLanes);
    if (thread.fences == writer.fences) {
      fail("what thread " + std::to_string(writer.thread) + " wrote to shared memory is behind no fence.proxy.async");
    }
  });
  return at;
}

std::uint32_t map_to_rank(std::uint32_t address, unsigned rank) {
  require_cluster("mapa");
  return (address & kOffsetMask) | rank << kRankBit;
}

void copy_later(void* to, const void* from, std::size_t bytes, std::size_t zeros) {
  self().copies.push_back({self().group, to, from, bytes, zeros});
}
void close_copies() { ++self().group; }

void wait_for_copies(int pending) {
  Thread& thread = self();
  for (; thread.done < thread.copies.size(); ++thread.done) {
    const Copy& copy = thread.copies[thread.done];
    if (pending >= 0 && copy.group >= thread.group - pending) return;
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
    std::memset(static_cast<char*>(copy.to) + copy.bytes, 0, copy.zeros);
  }
  thread.copies.clear();
  thread.done = 0;
}

namespace {

/// The number of int8 that has the byte's bits.
std::int16_t signed_of(std::uint8_t byte) {
  constexpr int kSign = 0x80;
  return static_cast<std::int16_t>((byte ^ kSign) - kSign);
}

}  // namespace

MOBICUDA_WITH_AVX2 void multiply_bytes(bool unsigned_a, const std::uint32_t* a, const std::uint32_t* b,
                                       std::uint32_t* d) {
  constexpr std::size_t kRows = 16;
  constexpr std::size_t kColumns = 8;
  constexpr std::size_t kK = 32;  // products are below 2^16, 32 of them below 2^31
  std::uint8_t bytes[kRows * kK];
  std::int16_t left[kRows * kK];
  std::int16_t right[kColumns * kK];
  std::memcpy(bytes, a, sizeof bytes);
  if (unsigned_a) {
    for (std::size_t i = 0; i < kRows * kK; ++i) left[i] = bytes[i];
  } else {
    for (std::size_t i = 0; i < kRows * kK; ++i) left[i] = signed_of(bytes[i]);
  }
  std::memcpy(bytes, b, sizeof right / 2);
  for (std::size_t i = 0; i < kColumns * kK; ++i) right[i] = signed_of(bytes[i]);
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < kK; ++i) sum += left[row * kK + i] * right[column * kK + i];
      d[row * kColumns + column] += static_cast<std::uint32_t>(sum);
    }
  }
}

MOBICUDA_WITH_AVX2 void multiply_halves(std::size_t k, std::size_t columns, const std::uint16_t* a,
                                        const std::uint16_t* b, float* d) {
  constexpr std::size_t kRows = 16;
  constexpr std::size_t kMostK = 16;
  // Vectors of columns; the compiler would make some of k, and pick them apart for each product.
  constexpr std::size_t kWidth = 4;
  constexpr std::size_t kPanel = 2 * kWidth;
  using Floats = float __attribute__((vector_size(kWidth * sizeof(float)), aligned(sizeof(float)), may_alias));
  using Doubles = double __attribute__((vector_size(kWidth * sizeof(double)), aligned(sizeof(double)), may_alias));
  float left[kRows * kMostK];
  for (std::size_t i = 0; i < kRows * k; ++i) left[i] = float_of_half(a[i]);
  for (std::size_t first = 0; first < columns; first += kPanel) {
    float floats[kPanel * kMostK];
    double right[kMostK * kPanel];
    for (std::size_t i = 0; i < kPanel * k; ++i) floats[i] = float_of_half(b[first * k + i]);
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t column = 0; column < kPanel; ++column)
        right[i * kPanel + column] = double{floats[column * k + i]};
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      auto* const to = reinterpret_cast<Floats*>(d + row * columns + first);
      const auto* from = reinterpret_cast<const Doubles*>(right);
      Doubles lower = __builtin_convertvector(to[0], Doubles);
      Doubles upper = __builtin_convertvector(to[1], Doubles);
      for (std::size_t i = 0; i < k; ++i, from += 2) {
        const double factor{left[row * k + i]};
        lower += factor * from[0];
        upper += factor * from[1];
      }
      to[0] = __builtin_convertvector(lower, Floats);
      to[1] = __builtin_convertvector(upper, Floats);
    }
  }
}

MOBICUDA_WITH_AVX2 void multiply(int k, const double* a, const double* b, double* d) {
  constexpr int kRows = 16;
  constexpr int kColumns = 8;
  for (int row = 0; row < kRows; ++row) {
    double sums[kColumns];
    std::copy_n(d + row * kColumns, kColumns, sums);
    for (int i = 0; i < k; ++i) {
      for (int column = 0; column < kColumns; ++column) sums[column] += a[row * k + i] * b[i * kColumns + column];
    }
    std::copy_n(sums, kColumns, d + row * kColumns);
  }
}

void deliver_later(std::function<void()> delivery) { machine().deliveries.push_back(std::move(delivery)); }

void deliver_from_shared_later(std::function<void()> delivery) {
  Thread& thread = self();
  const std::size_t number = thread.read.size();
  thread.read.push_back(false);
  deliver_later([&thread, number, delivery = std::move(delivery)] {
    delivery();
    thread.read[number] = true;
    thread.tell_reading();
  });
}

void wait_for_copies_from_shared(int pending) {
  Thread& thread = self();
  const auto started = static_cast<std::ptrdiff_t>(thread.read.size());
  thread.awaited = static_cast<std::size_t>(std::max<std::ptrdiff_t>(started - pending, 0));
  thread.tell_reading();
  block_until({&thread.is_reading, ~0U, 1});
}

void start_product(const WarpgroupProduct& product) {
  WarpgroupProduct own = product;
  meet_in_warp(
      [](void* const* operands) {
        Block& block = *self().block;
        const unsigned number = self().number;
        own_warp().products.start(operands, number % kWarpgroup / kLanes);
        block.warpgroups[number / kWarpgroup].start(number % kWarpgroup / kLanes,
                                                    *static_cast<const WarpgroupProduct*>(operands[0]));
      },
      &own);
}

void fence_products() {
  meet_in_warp([](void* const*) { own_warp().products.fence(); }, nullptr);
}

void commit_products() {
  meet_in_warp([](void* const*) { own_warp().products.commit(); }, nullptr);
}

void wait_for_products(int pending) {
  meet_in_warp(
      [](void* const* operands) {
        const int own = *static_cast<const int*>(operands[self().number % kLanes]);
        own_warp().products.wait(own);
      },
      &pending);
}

namespace {

MBarrier& mbarrier_at(std::uint32_t address) { return *static_cast<MBarrier*>(shared_at(address, sizeof(MBarrier))); }

void complete_phase(MBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1U;
  barrier.pending = barrier.total;
}

}  // namespace

void mbarrier_init(std::uint32_t barrier, int arrivals) {
  const auto count = static_cast<std::uint32_t>(arrivals);
  mbarrier_at(barrier) = {0, count & 0x7FFFU, count & 0xFFFFU, 0};
}

void mbarrier_arrive(std::uint32_t barrier, int announced_bytes) {
  MBarrier& at = mbarrier_at(barrier);
  if (at.pending == 0) fail("more arrivals at a barrier than a phase has");
  at.bytes += announced_bytes;
  --at.pending;
  complete_phase(at);
}

void mbarrier_bytes(std::uint32_t barrier, int bytes) {
  MBarrier& at = mbarrier_at(barrier);
  at.bytes -= bytes;
  complete_phase(at);
}

void mbarrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  const void* const at = &mbarrier_at(barrier);  // its phase is the first bit
  block_until({static_cast<const std::uint32_t*>(at), 1U, parity & 1U});
}

bool mbarrier_test(std::uint32_t barrier, std::uint32_t parity) {
  if (mbarrier_at(barrier).phase == (parity & 1U)) back_to_scheduler();
  return mbarrier_at(barrier).phase != (parity & 1U);
}

}  // namespace mobicuda::emulator
