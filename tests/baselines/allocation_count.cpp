#include "baselines/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace {

std::atomic<std::int64_t> calls_that_succeed{-1};  // before one that does not; negative: all do

bool fails() { return calls_that_succeed >= 0 && calls_that_succeed-- == 0; }

std::atomic<std::int64_t> plain_calls{0};
std::atomic<std::int64_t> plain_bytes{0};
std::atomic<std::int64_t> aligned_calls{0};
std::atomic<std::int64_t> aligned_bytes{0};
std::atomic<std::int64_t> live{0};
std::atomic<std::int64_t> live_bytes{0};
std::atomic<std::int64_t> most_live_bytes{0};

std::int64_t bytes_of(void* memory) noexcept { return static_cast<std::int64_t>(malloc_usable_size(memory)); }

void* counted(void* memory) noexcept {
  if (memory == nullptr) return memory;
  ++live;
  const std::int64_t now = live_bytes += bytes_of(memory);
  std::int64_t most = most_live_bytes;
  while (now > most && !most_live_bytes.compare_exchange_weak(most, now)) {
  }
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) {
    --live;
    live_bytes -= bytes_of(memory);
  }
  std::free(memory);
}

void* allocate(std::size_t bytes) noexcept {
  ++plain_calls;
  plain_bytes += static_cast<std::int64_t>(bytes);
  return fails() ? nullptr : counted(std::malloc(bytes == 0 ? 1 : bytes));
}

void* allocate(std::size_t bytes, std::align_val_t alignment) noexcept {
  ++aligned_calls;
  aligned_bytes += static_cast<std::int64_t>(bytes);
  const auto step = static_cast<std::size_t>(alignment);
  return fails() ? nullptr : counted(std::aligned_alloc(step, (bytes + step - 1) / step * step));
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* memory = allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignment);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace mobicuda::test {

bool fail_allocation_after(std::int64_t calls) { return calls_that_succeed.exchange(calls) < 0; }
AllocationCount all_allocations() { return {plain_calls + aligned_calls, plain_bytes + aligned_bytes}; }
std::int64_t live_allocations() { return live; }
std::int64_t peak_bytes_of(const std::function<void()>& action) {
  const std::int64_t before = live_bytes;
  most_live_bytes = before;
  action();
  return most_live_bytes - before;
}
AllocationCount aligned_allocations() { return {aligned_calls, aligned_bytes}; }

}  // namespace mobicuda::test
