#include "stream/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include <mobicuda/error.h>

#include <nlohmann/json.hpp>

namespace mobicuda::stream {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kMostIdentityBytes = std::size_t{1} << 24;
constexpr std::string_view kLineBegin = R"({"item":)";

Error io_error(const std::filesystem::path& file, const std::string& what) {
  return {ErrorCode::io, file.string(), what + ": " + std::strerror(errno)};
}

std::string identity_text(const Identity& identity) {
  Json json = Json::array();
  for (const auto& [key, value] : identity) json.push_back({key, value});
  return Json{{"format", kFormat}, {"stream", json}}.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Whether the file is this process's before `wait` has passed.
bool locked(int descriptor, std::chrono::milliseconds wait) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPause = std::chrono::milliseconds(50);
  const auto end = Clock::now() + wait;
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

void require_same(const std::filesystem::path& file, const Identity& identity) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostIdentityBytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text == identity_text(identity)) return;
  const Json json = Json::parse(text, nullptr, false);
  const Json expected = Json::parse(identity_text(identity));
  const std::string hint = "another result_dir begins a new stream";
  if (!json.is_object() || !json.contains("stream") || !json["stream"].is_array() ||
      json.value("format", Json()) != kFormat) {
    throw Error(ErrorCode::io, file.string(), "is not what a stream has written", hint);
  }
  for (std::size_t i = 0; i < identity.size(); ++i) {
    if (i < json["stream"].size() && json["stream"][i] == expected["stream"][i]) continue;
    throw Error(ErrorCode::invalid_argument, file.string(),
                "the results are of a stream with another '" + identity[i].first + "'", hint);
  }
  throw Error(ErrorCode::io, file.string(), "is not what a stream has written", hint);
}

}  // namespace

void replace_file(const std::filesystem::path& file, const std::string& content) {
  std::filesystem::path beside = file;
  beside += ".new";
  const int descriptor = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) throw io_error(beside, "cannot be written");
  bool written = true;
  for (std::size_t at = 0; at < content.size() && written;) {
    const ssize_t count = write(descriptor, content.data() + at, content.size() - at);
    if (count < 0 && errno == EINTR) continue;
    written = count >= 0;
    at += written ? static_cast<std::size_t>(count) : 0;
  }
  written = written && fsync(descriptor) == 0;
  int why = errno;
  close(descriptor);
  errno = why;
  if (!written || rename(beside.c_str(), file.c_str()) != 0) {
    why = errno;
    unlink(beside.c_str());
    errno = why;
    throw io_error(file, "cannot be written");
  }
}

Journal::Journal(const std::filesystem::path& folder, const Identity& identity, Item items, bool resume,
                 std::chrono::milliseconds wait)
    : file_(folder / "results.jsonl") {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw Error(ErrorCode::io, folder.string(), "cannot be made: " + failed.message());
  descriptor_ = open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) throw io_error(file_, "cannot be opened");
  try {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::io, file_.string(), "is no regular file");
    }
    if (!locked(descriptor_, wait)) {
      throw Error(ErrorCode::invalid_argument, file_.string(), "another process writes its results here",
                  "wait until it has ended, or name another result_dir");
    }
    // Looked at again: until the lock was taken another process may have written.
    fstat(descriptor_, &status);
    size_ = static_cast<std::uint64_t>(status.st_size);
    const std::filesystem::path about = folder / "stream.json";
    if (size_ > 0 && !resume) {
      throw Error(ErrorCode::invalid_argument, file_.string(), "there are results of an earlier run",
                  "--resume goes on with it, another result_dir begins a new one");
    }
    if (size_ > 0) {
      require_same(about, identity);
      read_done(items);
    } else {
      replace_file(about, identity_text(identity));
    }
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

Journal::~Journal() { close(descriptor_); }

void Journal::read_done(Item items) {
  done_before_.assign(items, false);
  std::array<char, 1 << 16> block{};
  std::string line;
  std::uint64_t number = 1;
  std::uint64_t whole = 0;  // bytes up to the last newline
  for (std::uint64_t at = 0; at < size_;) {
    const ssize_t count = pread(descriptor_, block.data(), block.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw io_error(file_, "cannot be read");
    const std::string_view text(block.data(), static_cast<std::size_t>(count));
    for (std::size_t from = 0; from < text.size();) {
      const std::size_t end = text.find('\n', from);
      // What names the item stands at a line's beginning, and the rest may be long.
      constexpr std::size_t kKept = 64;
      const std::string_view part = text.substr(from, end == std::string_view::npos ? end : end - from);
      if (line.size() < kKept) line.append(part.substr(0, kKept - line.size()));
      if (end == std::string_view::npos) break;
      Item item = 0;
      const char* const first = line.data() + std::min(line.size(), kLineBegin.size());
      const auto [stopped, error] = std::from_chars(first, line.data() + line.size(), item);
      if (!std::string_view(line).starts_with(kLineBegin) || error != std::errc() ||
          stopped == line.data() + line.size() || *stopped != ',' || item >= items || done_before_[item]) {
        throw Error(ErrorCode::io, file_.string() + ": line " + std::to_string(number),
                    "is no result of this stream, or one that is there already",
                    "results are read as they were written; another result_dir begins a new stream");
      }
      done_before_[item] = true;
      ++count_before_;
      ++number;
      line.clear();
      whole = at + end + 1;
      from = end + 1;
    }
    at += static_cast<std::uint64_t>(count);
  }
  cut_bytes_ = size_ - whole;
  if (cut_bytes_ > 0 && ftruncate(descriptor_, static_cast<off_t>(whole)) != 0)
    throw io_error(file_, "cannot be shortened");
  size_ = whole;
}

void Journal::append(const std::string& lines) {
  const std::scoped_lock lock(mutex_);
  for (std::size_t at = 0; at < lines.size();) {
    const ssize_t count = write(descriptor_, lines.data() + at, lines.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int why = errno;
      // Where this fails too, the next run takes the part of a line away.
      [[maybe_unused]] const int ignored = ftruncate(descriptor_, static_cast<off_t>(size_));
      errno = why;
      throw io_error(file_, "cannot be written");
    }
    at += static_cast<std::size_t>(count);
  }
  size_ += lines.size();
}

void Journal::flush() {
  const std::scoped_lock lock(mutex_);
  if (fdatasync(descriptor_) != 0) throw io_error(file_, "cannot be written");
}

}  // namespace mobicuda::stream
