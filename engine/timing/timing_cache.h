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

/// "2.10 us".
std::string timing_text(double microseconds);

/// What has to be decided.
struct TimedQuestion {
  std::string layer;    ///< as the network names it, for messages
  std::string subject;  ///< all that the times depend on: kTimingFields - 2 fields
  std::span<const std::string> candidates;
  std::size_t expected = 0;  ///< the rule's candidate, which stays unless another is faster by `margin`
  double margin = 0.05;
  /// The first so many candidates can take each other's place in the network without any other choice changing.
  std::size_t exchangeable = 0;
};

/// Differences of that share between two candidates are not decided among copies of a kernel: the neighbours that it
/// has in a network have made up for more than that.
inline constexpr double kContested = 0.03;

/// The candidate that comes so close to the one chosen that the network has to tell.
struct TimedRival {
  std::size_t candidate = 0;
  std::string reason;  ///< as TimedAnswer::reason, should it be chosen after all
};

struct TimedAnswer {
  std::size_t candidate = 0;
  std::string reason;
  /// The fastest of the other candidates that are exchangeable with this one, where it is slower by no more than
  /// kContested. A candidate that was kept as the expected one has the faster one as its rival.
  std::optional<TimedRival> rival{};
};

/// Measures a candidate; may return a first estimate when that is above `give_up_us`.
using CandidateTimer = std::function<double(std::size_t candidate, double give_up_us)>;

/// The fastest candidate by the times in the cache, or the expected one where that is slower by no more than noise and
/// neighbours make up for. Times that are missing are measured and added; with `require` they are an
/// Error(invalid_argument). A single candidate needs no time.
TimedAnswer choose_fastest(TimingCache& cache, const TimedQuestion& question, bool require,
                           const CandidateTimer& measure);

}  // namespace mobicuda
