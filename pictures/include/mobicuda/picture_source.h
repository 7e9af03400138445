#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mobicuda/export.h>

namespace mobicuda::pictures {

/// A file that may be a picture.
struct PictureFile {
  std::string name;  ///< as results have it
  std::filesystem::path path;
  std::string unreadable{};  ///< why it is no file that can be opened; empty for files
};

/// All files below `folder`, in ascending order of their names, which are paths relative to it with '/'; and among them
/// what is no file, or cannot be listed: links that loop or lead nowhere or to folders, devices, folders without
/// permission. Hidden files are left out. Throws Error(io) when the folder does not exist or cannot be listed.
MOBICUDA_API std::vector<PictureFile> list_folder(const std::filesystem::path& folder);

/// An encoded picture in memory.
struct EncodedPicture {
  std::string name;
  std::span<const std::uint8_t> bytes;
};

/// Where pictures come from, one after the other: their names and encoded bytes. It is used up by what reads it: a
/// classifier or a stream. A picture that cannot be read is reported there with its name and the reason.
class MOBICUDA_API PictureSource {
 public:
  /// All files below a folder, as list_folder() lists them. Throws Error(io) as that does, and when there is none.
  static PictureSource folder(const std::filesystem::path& folder);
  /// These files in this order, named by their paths as given.
  static PictureSource files(const std::vector<std::filesystem::path>& paths);
  static PictureSource files(std::vector<PictureFile> files);
  /// These pictures, whose bytes must stay until the source is used up or gone.
  static PictureSource memory(std::vector<EncodedPicture> pictures);
  /// The pictures of an uncompressed tar archive (ustar, pax, GNU long names) in its order, named as in the archive:
  /// regular members whose extension is jpg, jpeg or png, in whatever case. The extension is what follows the *first*
  /// dot of the file's name, as WebDataset takes samples apart, so that `0001.jpg` is a picture and `0001.mask.png`
  /// another field of that sample. Other members are passed over. Archives are read as far as they are whole: where one
  /// ends early or contradicts itself, one more entry that cannot be read, named after the archive, says why and where.
  /// Throws Error(io) when the file cannot be opened or is no regular file.
  static PictureSource tar(const std::filesystem::path& archive);
  /// The same of several archives one after the other. An archive that cannot be opened when its turn comes is reported
  /// as an entry.
  static PictureSource tars(std::vector<std::filesystem::path> archives);

  PictureSource(PictureSource&&) noexcept;
  PictureSource& operator=(PictureSource&&) noexcept;
  ~PictureSource();

  class Reader;  // of the library
  explicit PictureSource(std::unique_ptr<Reader> reader);
  /// Leaves the source empty. Throws Error(invalid_argument) where it is used up already.
  std::unique_ptr<Reader> take();

 private:
  std::unique_ptr<Reader> reader_;
};

}  // namespace mobicuda::pictures
