#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/picture_source.h>

#include "pictures/source/file.h"

namespace mobicuda::pictures {

/// A picture of a source, not read yet: in memory, a part of a file that is open, or a file.
struct Entry {
  std::string name;
  std::string unreadable;                ///< why it cannot be read; empty where it can be tried
  std::span<const std::uint8_t> memory;  ///< with neither `archive` nor `path`
  std::shared_ptr<const File> archive;
  std::int64_t offset = 0;  ///< in the archive
  std::int64_t size = 0;
  std::filesystem::path path;
};

/// What makes a source.
class PictureSource::Reader {
 public:
  Reader() = default;
  virtual ~Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// The next picture; false after the last. One thread at a time. Throws std::bad_alloc at most.
  virtual bool next(Entry& entry) = 0;
};

/// The bytes of a picture, read into memory that is kept for the next one, or where they are.
class EncodedBytes {
 public:
  /// Throws PictureError where they cannot be read or are more than `most`.
  void read(const Entry& entry, std::int64_t most);
  std::span<const std::uint8_t> span() const noexcept { return bytes_; }

 private:
  std::vector<std::uint8_t> own_;
  std::span<const std::uint8_t> bytes_;
};

/// Sources of tar archives (tar.cpp).
std::unique_ptr<PictureSource::Reader> read_tars(std::vector<std::filesystem::path> archives);

}  // namespace mobicuda::pictures
