#include "pictures/gpu/interrupted_cpus.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace mobicuda::pictures {
namespace {

constexpr std::string_view kBlanks = " \t";

// The next word of a line, which is taken off.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

template <class Number>
bool read(std::string_view word, Number& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

}  // namespace

std::map<int, std::uint64_t> gpu_interrupts(std::string_view text) {
  std::vector<int> columns;  // the CPUs that are on
  std::string_view header = next_line(text);
  for (std::string_view word = next_word(header); !word.empty(); word = next_word(header)) {
    constexpr std::string_view kCpu = "CPU";
    int cpu = -1;
    if (!word.starts_with(kCpu) || !read(word.substr(kCpu.size()), cpu)) return {};
    columns.push_back(cpu);
  }
  std::map<int, std::uint64_t> counts;
  while (!text.empty()) {
    std::string_view line = next_line(text);
    if (line.find("nvidia") == std::string_view::npos) continue;
    next_word(line);  // the interrupt's number
    for (const int cpu : columns) {
      std::uint64_t count = 0;
      if (!read(next_word(line), count)) break;
      counts[cpu] += count;
    }
  }
  return counts;
}

InterruptedCpus::InterruptedCpus(std::filesystem::path counts)
    : file_(std::move(counts)), next_look_(Clock::now().time_since_epoch()), last_(this->counts()) {}

std::map<int, std::uint64_t> InterruptedCpus::counts() const {
  std::ifstream file(file_);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return gpu_interrupts(text);
}

void InterruptedCpus::decoded(std::size_t pictures) {
  pictures_.fetch_add(pictures, std::memory_order_relaxed);
  if (Clock::now().time_since_epoch() < next_look_.load(std::memory_order_relaxed)) return;
  look();
}

void InterruptedCpus::look() {
  constexpr auto kPause = std::chrono::seconds(1);
  constexpr std::size_t kFewest = 100;         // pictures that say something
  constexpr std::uint64_t kPicturesEach = 10;  // the units' own CPU has one for every other picture, others none
  const std::scoped_lock lock(mutex_);
  next_look_.store((Clock::now() + kPause).time_since_epoch(), std::memory_order_relaxed);
  if (pictures_.load(std::memory_order_relaxed) < kFewest) return;
  const std::uint64_t least = pictures_.exchange(0, std::memory_order_relaxed) / kPicturesEach;
  std::map<int, std::uint64_t> now = counts();
  std::vector<int> found;
  for (const auto& [cpu, count] : now) {
    const auto before = last_.find(cpu);
    if (count - (before == last_.end() ? 0 : before->second) >= least) found.push_back(cpu);
  }
  last_ = std::move(now);
  if (found == cpus_) return;
  cpus_ = std::move(found);
  generation_.fetch_add(1, std::memory_order_release);
}

std::vector<int> InterruptedCpus::cpus() const {
  const std::scoped_lock lock(mutex_);
  return cpus_;
}

cpu_set_t without(const cpu_set_t& allowed, const std::vector<int>& cpus) {
  constexpr int kFewest = 2;  // one CPU for both threads is worse than a slow one for one of them
  cpu_set_t rest = allowed;
  for (const int cpu : cpus) {
    if (cpu < CPU_SETSIZE) CPU_CLR(static_cast<std::size_t>(cpu), &rest);
  }
  return CPU_COUNT(&rest) >= kFewest ? rest : allowed;
}

PlacedThread::PlacedThread() noexcept : known_(sched_getaffinity(0, sizeof allowed_, &allowed_) == 0) {}

void PlacedThread::keep_off(const InterruptedCpus& interrupted) {
  if (!known_ || generation_ == interrupted.generation()) return;
  generation_ = interrupted.generation();
  const cpu_set_t wanted = without(allowed_, interrupted.cpus());
  static_cast<void>(sched_setaffinity(0, sizeof wanted, &wanted));  // what may not be moved runs where it is
}

}  // namespace mobicuda::pictures
