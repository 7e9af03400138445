#include "specialise/code_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "graph/whole_file.h"

namespace mobicuda {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic = {'M', 'C', 'D', 'C', 'O', 'D', 'E', '1'};
constexpr std::int64_t kMostFileBytes = std::int64_t{64} << 20;
constexpr const char* kExtension = ".code";

/// In front of key, kernel name and image.
struct Head {
  std::array<char, 8> magic = kMagic;
  std::uint64_t checksum = 0;  ///< XXH3, 64 bits, of what follows it in the file
  std::uint64_t key_bytes = 0;
  std::uint64_t kernel_bytes = 0;
  std::uint64_t image_bytes = 0;
};
constexpr std::size_t kSummedFrom = offsetof(Head, key_bytes);

std::uint64_t checksum_of(const std::string& file) {
  return XXH3_64bits(file.data() + kSummedFrom, file.size() - kSummedFrom);
}

std::string hex(std::uint64_t number) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = kDigits[number >> (60 - 4 * i) & 15U];
  return text;
}

std::optional<std::string> read(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  // The size of what is open: another process may put a new file in its place meanwhile.
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  const std::streamoff bytes = stream.tellg();
  if (!stream || bytes < static_cast<std::streamoff>(sizeof(Head)) || bytes > kMostFileBytes) return std::nullopt;
  stream.seekg(0);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(text.size()))) return std::nullopt;
  return text;
}

std::string encode(const std::string& key, const DeviceCode& code) {
  Head head;
  head.key_bytes = key.size();
  head.kernel_bytes = code.kernel.size();
  head.image_bytes = code.image.size();
  std::string file(sizeof head, '\0');
  std::memcpy(file.data(), &head, sizeof head);
  file += key + code.kernel + code.image;
  head.checksum = checksum_of(file);
  std::memcpy(file.data(), &head, sizeof head);
  return file;
}

std::optional<DeviceCode> decode(const std::string& file, const std::string& key) {
  Head head;
  std::memcpy(&head, file.data(), sizeof head);
  if (head.magic != kMagic || head.checksum != checksum_of(file)) return std::nullopt;
  const std::uint64_t left = file.size() - sizeof head;
  if (head.key_bytes > left || head.kernel_bytes > left || head.image_bytes > left ||
      head.key_bytes + head.kernel_bytes + head.image_bytes != left) {
    return std::nullopt;
  }
  const std::string_view parts = std::string_view(file).substr(sizeof head);
  if (parts.substr(0, head.key_bytes) != key) return std::nullopt;
  return DeviceCode{std::string(parts.substr(head.key_bytes, head.kernel_bytes)),
                    std::string(parts.substr(head.key_bytes + head.kernel_bytes))};
}

}  // namespace

fs::path CodeCache::file_of(const std::string& key) const {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return folder_ / (hex(hash.high64) + hex(hash.low64) + kExtension);
}

std::optional<DeviceCode> CodeCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const fs::path file = file_of(key);
  const auto text = read(file);
  if (!text) return std::nullopt;
  auto code = decode(*text, key);
  if (code) {
    // Used now: make_room() takes the others first.
    std::error_code ignored;
    fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
  }
  return code;
}

std::string CodeCache::store(const std::string& key, const DeviceCode& code) const {
  if (folder_.empty()) return {};
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return folder_.string() + ": " + error.message();
  const fs::path file = file_of(key);
  const std::string text = encode(key, code);
  error = write_whole_file(file, {std::as_bytes(std::span(text))});
  if (error) return file.string() + ": cannot be written: " + error.message();
  make_room();
  return {};
}

void CodeCache::make_room() const {
  struct File {
    fs::file_time_type used;
    std::int64_t bytes;
    fs::path path;
  };
  constexpr std::chrono::hours kAbandoned{1};  // a file that some process did not get to rename
  std::vector<File> files;
  std::int64_t total = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    std::error_code ignored;
    const fs::file_time_type used = entry.last_write_time(ignored);
    const auto bytes = static_cast<std::int64_t>(entry.file_size(ignored));
    if (ignored) continue;
    if (entry.path().extension() == kUnfinishedFile && fs::file_time_type::clock::now() - used > kAbandoned) {
      fs::remove(entry.path(), ignored);
    } else if (entry.path().extension() == kExtension) {
      files.push_back({used, bytes, entry.path()});
      total += bytes;
    }
  }
  if (total <= most_bytes_) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= most_bytes_ / 4 * 3) return;
    std::error_code ignored;
    if (fs::remove(file.path, ignored)) total -= file.bytes;
  }
}

fs::path default_code_folder() {
  const auto folder = [](const char* name) -> fs::path {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing of the library sets it
    return value != nullptr && *value == '/' ? fs::path(value) : fs::path();
  };
  if (const fs::path caches = folder("XDG_CACHE_HOME"); !caches.empty()) return caches / "mobicuda" / "code";
  if (const fs::path home = folder("HOME"); !home.empty()) return home / ".cache" / "mobicuda" / "code";
  return {};
}

}  // namespace mobicuda
