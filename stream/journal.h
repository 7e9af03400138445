#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "stream/items.h"

namespace mobicuda::stream {

/// What a stream is, so that --resume goes on with no other one: pairs of a key, as errors name it, and its value.
using Identity = std::vector<std::pair<std::string, std::string>>;

/// The results of a stream in its result_dir: results.jsonl, a JSON object a line, and stream.json, what the stream is.
/// Lines are written whole, several at a time, with the system's own append: a process that is killed leaves whole
/// lines and at most a part of one behind them, which the next one takes away. A file is held by one process at a time.
/// Thread-safe.
class Journal {
 public:
  /// `resume` goes on where an earlier run ended. Throws Error(invalid_argument) where there are results and `resume`
  /// was not asked for, where they are of another stream, naming the key, and where another process is at work;
  /// Error(io) where files cannot be read or written, or hold a line that no stream has written.
  Journal(const std::filesystem::path& folder, const Identity& identity, Item items, bool resume,
          std::chrono::milliseconds wait = std::chrono::seconds(10));
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Whether an earlier run did the item.
  bool was_done(Item item) const { return !done_before_.empty() && done_before_[item]; }
  /// How many items earlier runs did.
  Item done_before() const noexcept { return count_before_; }
  /// Bytes of a line that an earlier run did not finish.
  std::uint64_t cut_bytes() const noexcept { return cut_bytes_; }

  /// Appends whole lines, each with its newline, in one go. Throws Error(io), after which nothing of them is there.
  void append(const std::string& lines);
  /// Waits until everything is on the disk.
  void flush();

 private:
  void read_done(Item items);

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::mutex mutex_;
  std::uint64_t size_ = 0;
  std::uint64_t cut_bytes_ = 0;
  std::vector<bool> done_before_;
  Item count_before_ = 0;
};

/// Writes a file beside and renames it, so that it is whole or as it was. Throws Error(io).
void replace_file(const std::filesystem::path& file, const std::string& content);

}  // namespace mobicuda::stream
