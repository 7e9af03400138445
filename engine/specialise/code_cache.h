#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "specialise/code_compiler.h"

namespace mobicuda {

/// Compiled code in files of a folder, one for each key, for this process and others: files are written beside and
/// renamed, so that a reader sees a whole one or none. A damaged file counts as absent. Nothing throws: a folder that
/// cannot be written keeps nothing. Safe from several threads.
class CodeCache {
 public:
  /// The folder holds at most this; then the files that were not used for the longest time go.
  static constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

  /// Empty: keeps nothing. The folder is made when something is stored.
  explicit CodeCache(std::filesystem::path folder, std::int64_t most_bytes = kMostBytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  const std::filesystem::path& folder() const { return folder_; }

  /// `key` is all that the code depends on.
  std::optional<DeviceCode> find(const std::string& key) const;
  /// Empty, or why it could not be stored.
  std::string store(const std::string& key, const DeviceCode& code) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;
  void make_room() const;

  std::filesystem::path folder_;
  std::int64_t most_bytes_;
};

/// mobicuda/code in the user's cache folder (XDG_CACHE_HOME, or .cache in HOME); empty where there is none.
std::filesystem::path default_code_folder();

}  // namespace mobicuda
