#include "stress/kernel_load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "stress/count_differences.h"
#include "support/gpu_traits.h"

namespace mobicuda::stress {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNan = 0xFF;
// Kernels that a stream has in a row, each behind its predecessor by programmatic launch where the GPU has that.
constexpr int kRow = 6;
constexpr std::size_t kWordBytes = 2;
// Of the largest number of pictures: small launches leave room for others on their SMs.
constexpr int kHalvings = 4;

void check(cudaError_t status, const std::string& what) {
  if (status != cudaSuccess) throw std::runtime_error(what + ": " + cudaGetErrorString(status));
}

std::size_t bytes_of(const KernelCase& one) { return static_cast<std::size_t>(one.pictures) * one.output_bytes; }

/// One stream and its host thread.
class Lane {
 public:
  Lane(const std::vector<KernelCase>& cases, std::uint32_t seed)
      : cases_(cases),
        random_(seed),
        programmatic_(test::gpu_traits().programmatic_launch()),
        count_(sizeof(unsigned)) {
    for (const KernelCase& one : cases) slot_bytes_ = std::max(slot_bytes_, bytes_of(one));
    slots_ = std::make_unique<DeviceBytes>(kRow * slot_bytes_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaMemset(count_.at(0), 0, sizeof(unsigned)), "cudaMemset");
  }
  ~Lane() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void run_until(Clock::time_point end, const std::atomic<bool>& stop) {
    while (!stop && Clock::now() < end) run_row();
  }

  const KernelTally& tally() const { return tally_; }

 private:
  struct Launched {
    std::size_t which;
    int n, first;
  };

  int upto(int last) { return std::uniform_int_distribution<int>(0, last)(random_); }

  void run_row() {
    Launched row[kRow];
    check(cudaMemsetAsync(slots_->at(0), kNan, slots_->size(), stream_), "cudaMemsetAsync");
    const bool programmatic = programmatic_ && upto(3) != 0;
    std::string names;
    for (int i = 0; i < kRow; ++i) {
      Launched& one = row[i];
      one.which = static_cast<std::size_t>(upto(static_cast<int>(cases_.size()) - 1));
      const KernelCase& its = cases_[one.which];
      one.n = 1 + upto(std::max(1, its.pictures >> upto(kHalvings)) - 1);
      one.first = upto((its.pictures - one.n) / its.aligned) * its.aligned;
      check(its.enqueue(one.n, one.first, slot(i), {stream_, programmatic}), its.name);
      if (names.find(its.name) == std::string::npos) names += (names.empty() ? "" : ", ") + its.name;
    }
    for (int i = 0; i < kRow; ++i) {
      const KernelCase& its = cases_[row[i].which];
      const std::size_t bytes = its.output_bytes;
      const unsigned char* const right = its.expected->at(static_cast<std::size_t>(row[i].first) * bytes);
      check(count_differences(slot(i), right, static_cast<std::size_t>(row[i].n) * bytes / kWordBytes,
                              reinterpret_cast<unsigned*>(count_.at(0)), stream_),
            "comparing");
    }
    unsigned differ = 0;
    check(cudaMemcpyAsync(&differ, count_.at(0), sizeof differ, cudaMemcpyDeviceToHost, stream_), "copying a count");
    check(cudaStreamSynchronize(stream_), "a row of " + names);
    tally_.launches += kRow;
    if (differ != 0 && tally_.wrong == 0) tally_.where = names;
    tally_.wrong = differ;
  }

  unsigned char* slot(int i) const { return slots_->at(static_cast<std::size_t>(i) * slot_bytes_); }

  const std::vector<KernelCase>& cases_;
  std::mt19937 random_;
  bool programmatic_;
  DeviceBytes count_;
  std::size_t slot_bytes_ = 0;
  std::unique_ptr<DeviceBytes> slots_;
  cudaStream_t stream_ = nullptr;
  KernelTally tally_;
};

}  // namespace

DeviceBytes::DeviceBytes(std::size_t bytes) : bytes_(bytes) {
  check(cudaMalloc(&data_, bytes), "cudaMalloc of " + std::to_string(bytes) + " bytes");
}

DeviceBytes::~DeviceBytes() { static_cast<void>(cudaFree(data_)); }

void run_alone(std::vector<KernelCase>& cases) {
  for (KernelCase& one : cases) {
    auto outputs = std::make_shared<DeviceBytes>(bytes_of(one));
    check(cudaMemset(outputs->at(0), kNan, outputs->size()), "cudaMemset");
    check(one.enqueue(one.pictures, 0, outputs->at(0), {}), one.name + " alone");
    check(cudaDeviceSynchronize(), one.name + " alone");
    one.expected = std::move(outputs);
  }
}

KernelTally launch_side_by_side(const std::vector<KernelCase>& cases, const std::vector<KernelCase>& neighbours,
                                const KernelConditions& conditions) {
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < conditions.streams; ++i) {
    const bool is_neighbour = i % 2 == 1 && !neighbours.empty();
    lanes.push_back(std::make_unique<Lane>(is_neighbour ? neighbours : cases,
                                           conditions.seed * 1000 + static_cast<std::uint32_t>(i)));
  }
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(conditions.seconds));
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (const auto& lane : lanes) {
    threads.emplace_back([&, lane = lane.get()] {
      try {
        lane->run_until(end, stop);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
        stop = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  KernelTally all;
  for (const auto& lane : lanes) {
    all.launches += lane->tally().launches;
    all.wrong += lane->tally().wrong;
    if (all.where.empty()) all.where = lane->tally().where;
  }
  return all;
}

}  // namespace mobicuda::stress
