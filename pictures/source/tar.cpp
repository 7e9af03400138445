// Headers of 512 bytes, each followed by its member's bytes, filled up to blocks of 512; two blocks of zeros at the
// end.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "pictures/decode/picture_error.h"
#include "pictures/source/reader.h"

namespace mobicuda::pictures {
namespace {

constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kMostNameBytes = std::int64_t{1} << 20;  // of a long name, or of a pax header
using Block = std::array<std::uint8_t, kBlock>;

struct Field {
  std::size_t offset, bytes;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr Field kType{156, 1};
constexpr Field kMagic{257, 5};
constexpr Field kPrefix{345, 155};

std::string_view text_of(const Block& block, Field field) {
  const std::string_view whole(reinterpret_cast<const char*>(block.data()) + field.offset, field.bytes);
  return whole.substr(0, whole.find('\0'));
}

// Octal digits between spaces, or a binary number whose first bit is set (GNU).
std::optional<std::int64_t> number_of(const Block& block, Field field) {
  constexpr unsigned kBinary = 0x80;
  const std::uint8_t* const bytes = block.data() + field.offset;
  if (bytes[0] == kBinary) {
    std::uint64_t number = 0;
    for (std::size_t i = 1; i < field.bytes; ++i) {
      if (number >> 55U != 0) return std::nullopt;
      number = number << 8U | bytes[i];
    }
    return static_cast<std::int64_t>(number);
  }
  std::string_view text = text_of(block, field);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find(' '));
  if (text.empty()) return 0;
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number, 8);
  if (failure != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

bool checksum_holds(const Block& block) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.bytes;
    sum += own ? ' ' : block[i];
  }
  return number_of(block, kChecksum) == sum;
}

bool is_picture(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  const auto dot = file.find('.');
  if (dot == 0 || dot == std::string_view::npos) return false;
  std::string extension(file.substr(dot + 1));
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == "jpg" || extension == "jpeg" || extension == "png";
}

// What a pax header says of the next member.
struct Pax {
  std::optional<std::string> path;
  std::optional<std::int64_t> size;
  bool sparse = false;
};

[[noreturn]] void fail(std::int64_t at, const std::string& why) {
  throw PictureError("damaged archive: byte " + std::to_string(at) + ": " + why);
}

class TarFile {
 public:
  explicit TarFile(const std::filesystem::path& path) : file_(std::make_shared<File>(path)) {}

  // The next picture; false at the end. Throws PictureError where the archive is damaged.
  bool next(Entry& entry) {
    std::optional<std::string> long_name;
    Pax pax;
    for (;;) {
      Block block;
      if (!read_header(block)) return false;
      const std::int64_t at = at_;
      const char type = static_cast<char>(block[kType.offset]);
      const bool extended = type == 'x' || type == 'L';
      std::int64_t size = member_size(block, extended ? std::nullopt : pax.size);
      at_ += kBlock;
      const std::int64_t content = at_;
      at_ += (size + kBlock - 1) / kBlock * kBlock;
      if (type == 'L') {
        long_name = read_text(at, content, size);
        long_name->resize(std::min(long_name->find('\0'), long_name->size()));
      } else if (type == 'x') {
        pax = parse_pax(at, read_text(at, content, size));
      } else if (type != 'g' && type != 'K') {
        std::string name = pax.path ? *pax.path : long_name ? *long_name : name_of(block);
        const bool sparse = pax.sparse;
        pax = {};
        long_name.reset();
        if ((type != '0' && type != '\0' && type != '7') || !is_picture(name)) continue;
        entry.name = std::move(name);
        if (sparse) entry.unreadable = "is a sparse member, which is not read";
        entry.archive = file_;
        entry.offset = content;
        entry.size = size;
        return true;
      }
    }
  }

 private:
  bool read_header(Block& block) {
    if (at_ >= file_->size()) fail(at_, "ends early, without the mark of its end");
    if (file_->read(at_, block) < block.size()) fail(at_, "ends early, within a header");
    if (std::all_of(block.begin(), block.end(), [](std::uint8_t byte) { return byte == 0; })) return false;
    if (at_ == 0 && block[0] == 0x1F && block[1] == 0x8B) {
      throw PictureError("is compressed by gzip: an archive is read as it lies, unpack it first");
    }
    if (!checksum_holds(block)) fail(at_, "no header, or a damaged one: its checksum does not hold");
    return true;
  }

  std::int64_t member_size(const Block& block, std::optional<std::int64_t> pax_size) const {
    const std::optional<std::int64_t> size = pax_size ? pax_size : number_of(block, kSize);
    if (!size) fail(at_, "the size of a member is no number");
    const std::int64_t left = file_->size() - at_ - kBlock;
    if (*size > left) {
      fail(at_,
           "ends early: a member of " + std::to_string(*size) + " bytes, where " + std::to_string(left) + " are left");
    }
    return *size;
  }

  static std::string name_of(const Block& block) {
    std::string name(text_of(block, kName));
    const std::string_view prefix = text_of(block, kMagic) == "ustar" ? text_of(block, kPrefix) : std::string_view();
    // GNU's own form has other fields there; its magic is "ustar " with a space.
    const bool gnu = block[kMagic.offset + kMagic.bytes] == ' ';
    return prefix.empty() || gnu ? name : std::string(prefix) + '/' + name;
  }

  std::string read_text(std::int64_t at, std::int64_t offset, std::int64_t size) const {
    if (size > kMostNameBytes) fail(at, "a name of " + std::to_string(size) + " bytes");
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
    if (file_->read(offset, bytes) < bytes.size()) fail(at, "ends early, within a name");
    return {bytes.begin(), bytes.end()};
  }

  // Records of "LENGTH KEY=VALUE\n", where LENGTH counts itself.
  static Pax parse_pax(std::int64_t at, std::string_view text) {
    Pax pax;
    while (!text.empty()) {
      std::size_t length = 0;
      const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), length);
      const auto digits = static_cast<std::size_t>(end - text.data());
      if (failure != std::errc() || digits >= text.size() || *end != ' ' || length > text.size() ||
          length < digits + 2 || text[length - 1] != '\n') {
        fail(at, "a damaged pax header");
      }
      const std::string_view record = text.substr(digits + 1, length - digits - 2);
      text.remove_prefix(length);
      const auto equals = record.find('=');
      if (equals == std::string_view::npos) fail(at, "a damaged pax header");
      const std::string_view key = record.substr(0, equals);
      const std::string_view value = record.substr(equals + 1);
      if (key == "path") pax.path = value.substr(0, value.find('\0'));
      if (key.starts_with("GNU.sparse.")) pax.sparse = true;
      if (key == "size") {
        std::int64_t size = 0;
        const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
        if (wrong != std::errc() || last != value.data() + value.size() || size < 0) {
          fail(at, "a pax header whose size is no number");
        }
        pax.size = size;
      }
    }
    return pax;
  }

  std::shared_ptr<const File> file_;
  std::int64_t at_ = 0;
};

class TarReader final : public PictureSource::Reader {
 public:
  explicit TarReader(std::vector<std::filesystem::path> archives) : archives_(std::move(archives)) {}

  bool next(Entry& entry) override {
    for (; archive_ < archives_.size(); ++archive_, open_.reset()) {
      try {
        if (!open_) open_.emplace(archives_[archive_]);
        if (open_->next(entry)) return true;
      } catch (const PictureError& error) {
        entry = {};
        entry.name = archives_[archive_].string();
        entry.unreadable = error.what();
        ++archive_;
        open_.reset();
        return true;
      }
    }
    return false;
  }

 private:
  std::vector<std::filesystem::path> archives_;
  std::size_t archive_ = 0;
  std::optional<TarFile> open_;
};

}  // namespace

std::unique_ptr<PictureSource::Reader> read_tars(std::vector<std::filesystem::path> archives) {
  return std::make_unique<TarReader>(std::move(archives));
}

}  // namespace mobicuda::pictures
