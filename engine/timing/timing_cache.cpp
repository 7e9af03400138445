#include "timing/timing_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include <mobicuda/error.h>

#include "graph/whole_file.h"

namespace mobicuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader = "mobicuda timing cache, format 1";
constexpr char kSeparator = '|';
constexpr double kGiveUp = 2;  // a candidate so many times slower than the best is not measured twice
constexpr const char* kUnreadable = "name another file, or delete this one and let it be measured again";
constexpr const char* kUnwritable = "choose a file in a folder that can be written to";

std::string key_of(const std::string& subject, const std::string& kernels) { return subject + kSeparator + kernels; }

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.begin(), text.end(), value, std::chars_format::fixed, decimals).ptr;
  return {text.begin(), end};
}

// Nothing where the line is not one of a timing cache.
std::optional<std::pair<std::string, double>> parse(const std::string& line) {
  if (std::count(line.begin(), line.end(), kSeparator) != kTimingFields - 1) return std::nullopt;
  const std::size_t last = line.rfind(kSeparator);
  double time = 0;
  const char* end = line.data() + line.size();
  const auto result = std::from_chars(line.data() + last + 1, end, time);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(time) || time <= 0) return std::nullopt;
  return std::pair(line.substr(0, last), time);
}

// Between reading a file and replacing it no other process does the same in its folder: it would lose what this one
// adds. Without a lock where the file system has none.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : fd_(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

// Where a file that is written by renaming another one has to go, so that links stay.
fs::path without_links(fs::path file) {
  constexpr int kMostLinks = 40;  // as Linux
  std::error_code ignored;
  for (int i = 0; i < kMostLinks && fs::is_symlink(file, ignored); ++i) {
    file = file.parent_path() / fs::read_symlink(file, ignored);
  }
  return file;
}

std::optional<TimedRival> rival_of(std::size_t chosen, const TimedQuestion& question,
                                   const std::vector<double>& times) {
  if (chosen >= question.exchangeable) return std::nullopt;
  std::optional<std::size_t> rival;
  for (std::size_t i = 0; i < question.exchangeable; ++i) {
    if (i != chosen && (!rival || times[i] < times[*rival])) rival = i;
  }
  if (!rival || times[*rival] > (1 + kContested) * times[chosen]) return std::nullopt;
  return TimedRival{*rival, "measured " + timing_text(times[*rival]) + "; " + question.candidates[chosen] + " " +
                                timing_text(times[chosen])};
}

}  // namespace

TimingCache::TimingCache(fs::path file) : file_(std::move(file)), times_(read()) {
  std::error_code ignored;
  const fs::path target = without_links(file_);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ErrorCode::io, file_.string(), "its folder does not exist", "create the folder");
  }
}

std::optional<double> TimingCache::find(const std::string& subject, const std::string& kernels) const {
  const auto found = times_.find(key_of(subject, kernels));
  return found == times_.end() ? std::nullopt : std::optional(found->second);
}

void TimingCache::add(const std::string& subject, const std::string& kernels, double microseconds) {
  constexpr double kNanoseconds = 1000;
  const double rounded = std::max(1.0, std::round(microseconds * kNanoseconds)) / kNanoseconds;
  times_[key_of(subject, kernels)] = rounded;
  added_[key_of(subject, kernels)] = rounded;
}

void TimingCache::save() {
  if (added_.empty()) return;
  const FolderLock lock(without_links(file_).parent_path());
  Times merged = read();
  for (const auto& [key, time] : added_) merged[key] = time;
  write(merged);
  added_.clear();
}

TimingCache::Times TimingCache::read() const {
  Times times;
  std::error_code ignored;
  if (!fs::exists(file_, ignored)) return times;
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::io, file_.string(), std::string("cannot be read as a timing cache") + why, kUnreadable);
  };
  if (fs::is_directory(file_, ignored)) refuse(": it is a folder");
  // Before it is opened: a FIFO without a writer must not hang us.
  if (!fs::is_regular_file(file_, ignored)) refuse(": it is not a regular file");
  std::ifstream in(file_);
  if (!in) refuse("");
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string where = file_.string() + ", line " + std::to_string(number);
    if (number == 1) {
      if (line != kHeader) {
        throw Error(ErrorCode::io, where, "should be '" + std::string(kHeader) + "'", kUnreadable);
      }
      continue;
    }
    auto entry = parse(line);
    if (!entry) {
      throw Error(ErrorCode::io, where, "is not " + std::to_string(kTimingFields) + " fields that end in a time",
                  kUnreadable);
    }
    times.insert(std::move(*entry));
  }
  return times;
}

void TimingCache::write(const Times& times) const {
  std::string text = std::string(kHeader) + '\n';
  for (const auto& [key, time] : times) text += key + kSeparator + fixed(time, 3) + '\n';
  const std::error_code failure = write_whole_file(without_links(file_), {std::as_bytes(std::span(text))});
  if (failure) throw Error(ErrorCode::io, file_.string(), "cannot be written: " + failure.message(), kUnwritable);
}

std::string timing_field(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == kSeparator || c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string timing_text(double microseconds) { return fixed(microseconds, microseconds < 100 ? 2 : 1) + " us"; }

TimedAnswer choose_fastest(TimingCache& cache, const TimedQuestion& question, bool require,
                           const CandidateTimer& measure) {
  const auto candidates = question.candidates;
  if (candidates.size() == 1) return {0, "the only kernel that runs this shape"};
  std::vector<double> times;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto time = cache.find(question.subject, candidates[i]);
    if (!time && require) {
      throw Error(ErrorCode::invalid_argument, cache.file().string(),
                  "has no time of " + candidates[i] + " for layer '" + question.layer + "' (" + question.subject + ")",
                  "compile once without the requirement on this GPU: what is missing is measured and added");
    }
    if (!time) {
      cache.add(question.subject, candidates[i], measure(i, kGiveUp * best));
      time = cache.find(question.subject, candidates[i]);
    }
    times.push_back(*time);
    best = std::min(best, *time);
  }
  const auto fastest = static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  const std::size_t expected = question.expected;
  if (expected != fastest && times.at(expected) <= (1 + question.margin) * times[fastest]) {
    return {expected,
            "measured " + timing_text(times[expected]) + ", as by rule; " + candidates[fastest] + " " +
                timing_text(times[fastest]) + " is not clearly faster",
            rival_of(expected, question, times)};
  }
  std::size_t next = fastest == 0 ? 1 : 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (i != fastest && times[i] < times[next]) next = i;
  }
  return {fastest,
          "measured " + timing_text(times[fastest]) + "; next " + candidates[next] + " " + timing_text(times[next]),
          rival_of(fastest, question, times)};
}

}  // namespace mobicuda
