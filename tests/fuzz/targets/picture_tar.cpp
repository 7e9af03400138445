#include <mobicuda/picture_stream.h>

#include "fuzz/target.h"

namespace mobicuda::fuzz {
namespace {

namespace pic = pictures;

bool run(Bytes input) {
  const std::filesystem::path file = scratch_file("input.tar", input);
  std::size_t good = 0;
  const bool opened = returns([&] {
    pic::StreamOptions options;
    options.preprocessing.resize_to = 8;
    options.preprocessing.crop_width = 8;
    options.preprocessing.crop_height = 8;
    options.threads = 1;
    options.decode.max_pixels = 1 << 10;
    options.decode.max_bytes = 1 << 16;
    pic::PictureStream stream(pic::PictureSource::tar(file), options);
    while (const pic::PreparedBatch* batch = stream.next()) good += batch->indices.size();
  });
  return opened && good > 0;
}

}  // namespace

Target picture_tar() { return {run}; }

}  // namespace mobicuda::fuzz
