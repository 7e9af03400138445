#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace mobicuda {

/// Times of kernels in a text file: a header, then lines of kTimingFields fields with '|' between them, sorted. The
/// last two are the kernels and their microseconds, those before say what they were measured for.
class TimingCache {
 public:
  /// Reads `file`, which need not exist. Throws Error(io) where it is not a timing cache, or can be neither read nor
  /// made.
  explicit TimingCache(std::filesystem::path file);

  const std::filesystem::path& file() const { return file_; }
  std::optional<double> find(const std::string& subject, const std::string& kernels) const;
  /// Keeps what the file would: the time in whole nanoseconds.
  void add(const std::string& subject, const std::string& kernels, double microseconds);
  std::size_t added() const { return added_.size(); }
  /// Writes what was added into what the file holds by now, replacing it in one step. Nothing added: does nothing.
  void save();

 private:
  using Times = std::map<std::string, double>;  // by subject and kernels, as in the file

  Times read() const;
  void write(const Times& times) const;

  std::filesystem::path file_;
  Times times_;
  Times added_;
};

inline constexpr int kTimingFields = 8;

/// `text` as a field of a timing cache: without separators and line ends.
std::string timing_field(std::string text);

/// What has to be decided.
struct TimedQuestion {
  std::string layer;    ///< as the network names it, for messages
  std::string subject;  ///< all that the times depend on: kTimingFields - 2 fields
  std::span<const std::string> candidates;
  std::size_t expected = 0;  ///< the rule's candidate, which stays unless another is faster by `margin`
  double margin = 0.05;
};

struct TimedAnswer {
  std::size_t candidate = 0;
  std::string reason;
};

/// Measures a candidate; may return a first estimate when that is above `give_up_us`.
using CandidateTimer = std::function<double(std::size_t candidate, double give_up_us)>;

/// The fastest candidate by the times in the cache, or the expected one where that is slower by no more than noise and
/// neighbours make up for. Times that are missing are measured and added; with `require` they are an
/// Error(invalid_argument). A single candidate needs no time.
TimedAnswer choose_fastest(TimingCache& cache, const TimedQuestion& question, bool require,
                           const CandidateTimer& measure);

}  // namespace mobicuda
