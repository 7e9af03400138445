#include <mobicuda/picture_source.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include <mobicuda/error.h>

#include "graph/memory_errors.h"
#include "pictures/decode/picture_error.h"
#include "pictures/source/reader.h"

namespace mobicuda::pictures {
namespace {

namespace fs = std::filesystem;

// Why an entry that is not a folder cannot be read as a file; empty where it can be tried.
std::string why_no_file(const fs::file_status& status, const std::error_code& failure) {
  if (status.type() == fs::file_type::none) return failure.message();
  if (status.type() == fs::file_type::not_found) return "is a link to nothing";
  return status.type() == fs::file_type::regular ? "" : "is not a regular file";
}

// One entry that fails must not end the list, as it would with recursive_directory_iterator.
class Lister {
 public:
  explicit Lister(const fs::path& folder) : folder_(folder) {}

  std::vector<PictureFile> list() && {
    const std::error_code failure = add_folder({});
    if (failure) throw Error(ErrorCode::io, folder_.string(), "cannot be listed: " + failure.message());
    std::sort(files_.begin(), files_.end(), [](const PictureFile& a, const PictureFile& b) { return a.name < b.name; });
    return std::move(files_);
  }

 private:
  std::error_code add_folder(const fs::path& relative) {
    std::error_code failure;
    fs::directory_iterator entry(folder_ / relative, failure);
    for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
      if (!entry->path().filename().native().starts_with('.')) add(*entry, relative / entry->path().filename());
    }
    return failure;
  }

  void add(const fs::directory_entry& entry, const fs::path& relative) {
    std::error_code failure;
    const fs::file_status status = entry.status(failure);
    std::error_code ignored;  // status() tells
    if (status.type() != fs::file_type::directory) {
      add_file(relative, why_no_file(status, failure));
    } else if (entry.is_symlink(ignored)) {
      add_file(relative, "is a link to a folder");
    } else if (failure = add_folder(relative); failure) {
      add_file(relative, "cannot be listed: " + failure.message());
    }
  }

  void add_file(const fs::path& relative, std::string unreadable) {
    files_.push_back({relative.generic_string(), folder_ / relative, std::move(unreadable)});
  }

  const fs::path& folder_;
  std::vector<PictureFile> files_;
};

class FileReader final : public PictureSource::Reader {
 public:
  explicit FileReader(std::vector<PictureFile> files) : files_(std::move(files)) {}

  bool next(Entry& entry) override {
    if (next_ == files_.size()) return false;
    PictureFile& file = files_[next_++];
    entry.name = std::move(file.name);
    entry.unreadable = std::move(file.unreadable);
    entry.path = std::move(file.path);
    return true;
  }

 private:
  std::vector<PictureFile> files_;
  std::size_t next_ = 0;
};

class MemoryReader final : public PictureSource::Reader {
 public:
  explicit MemoryReader(std::vector<EncodedPicture> pictures) : pictures_(std::move(pictures)) {}

  bool next(Entry& entry) override {
    if (next_ == pictures_.size()) return false;
    EncodedPicture& picture = pictures_[next_++];
    entry.name = std::move(picture.name);
    entry.memory = picture.bytes;
    return true;
  }

 private:
  std::vector<EncodedPicture> pictures_;
  std::size_t next_ = 0;
};

void require_size(std::int64_t bytes, std::int64_t most) {
  if (bytes <= most) return;
  throw PictureError("has " + std::to_string(bytes) + " bytes, more than " + std::to_string(most));
}

}  // namespace

void EncodedBytes::read(const Entry& entry, std::int64_t most) {
  bytes_ = {};
  if (!entry.unreadable.empty()) throw PictureError(entry.unreadable);
  if (!entry.archive && entry.path.empty()) {
    require_size(static_cast<std::int64_t>(entry.memory.size()), most);
    bytes_ = entry.memory;
    return;
  }
  const auto fill = [&](const File& file, std::int64_t offset, std::int64_t size) {
    require_size(size, most);
    const auto count = static_cast<std::size_t>(size);
    // It does not become smaller, so that what is read again and again is not filled with zeros before.
    if (own_.size() < count) own_.resize(count);
    bytes_ = std::span<const std::uint8_t>(own_).first(file.read(offset, std::span(own_).first(count)));
  };
  if (entry.archive) {
    fill(*entry.archive, entry.offset, entry.size);
  } else {
    const File file(entry.path);
    fill(file, 0, file.size());
  }
}

std::vector<PictureFile> list_folder(const fs::path& folder) {
  return with_memory_errors("listing a folder", [&] {
    std::error_code failure;
    if (!fs::is_directory(folder, failure)) {
      throw Error(ErrorCode::io, folder.string(), failure ? failure.message() : "is not a folder");
    }
    return Lister(folder).list();
  });
}

PictureSource PictureSource::folder(const fs::path& folder) {
  std::vector<PictureFile> files = list_folder(folder);
  if (files.empty()) throw Error(ErrorCode::io, folder.string(), "holds no file");
  return PictureSource::files(std::move(files));
}

PictureSource PictureSource::files(const std::vector<fs::path>& paths) {
  return with_memory_errors("a list of pictures", [&] {
    std::vector<PictureFile> files;
    files.reserve(paths.size());
    for (const fs::path& path : paths) {
      files.push_back({path.string(), path, path.empty() ? "its path is empty" : ""});
    }
    return PictureSource::files(std::move(files));
  });
}

PictureSource PictureSource::files(std::vector<PictureFile> files) {
  return with_memory_errors("a list of pictures",
                            [&] { return PictureSource(std::make_unique<FileReader>(std::move(files))); });
}

PictureSource PictureSource::memory(std::vector<EncodedPicture> pictures) {
  return with_memory_errors("a list of pictures",
                            [&] { return PictureSource(std::make_unique<MemoryReader>(std::move(pictures))); });
}

PictureSource PictureSource::tar(const fs::path& archive) {
  try {
    const File can_be_opened(archive);
  } catch (const PictureError& error) {
    throw Error(ErrorCode::io, archive.string(), error.what());
  }
  return tars({archive});
}

PictureSource PictureSource::tars(std::vector<fs::path> archives) {
  return with_memory_errors("a list of archives", [&] { return PictureSource(read_tars(std::move(archives))); });
}

PictureSource::PictureSource(std::unique_ptr<Reader> reader) : reader_(std::move(reader)) {}
PictureSource::PictureSource(PictureSource&&) noexcept = default;
PictureSource& PictureSource::operator=(PictureSource&&) noexcept = default;
PictureSource::~PictureSource() = default;

std::unique_ptr<PictureSource::Reader> PictureSource::take() {
  if (!reader_) throw Error(ErrorCode::invalid_argument, "PictureSource", "is used up", "make a new one for each run");
  return std::move(reader_);
}

}  // namespace mobicuda::pictures
