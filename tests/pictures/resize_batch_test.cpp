// The GPU's resizing against the CPU's: on a GPU, and by the emulator.
#include "pictures/gpu/resize_batch.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "pictures/gpu/plane_layout.h"
#include "pictures/picture_support.h"
#include "pictures/prepare/resize.h"
#include "pictures/prepare/window.h"
#include "support/catch.h"

using namespace mobicuda;
using namespace mobicuda::pictures;

namespace {

void check(cudaError_t status) {
  CAPTURE(cudaGetErrorString(status));
  REQUIRE(status == cudaSuccess);
}

// Memory of the device.
class Memory {
 public:
  explicit Memory(std::size_t bytes, int value = 0) : bytes_(bytes) {
    check(cudaMalloc(&data_, bytes));
    check(cudaMemset(data_, value, bytes));
  }
  explicit Memory(const void* from, std::size_t bytes) : Memory(bytes) {
    check(cudaMemcpy(data_, from, bytes, cudaMemcpyHostToDevice));
  }
  ~Memory() { cudaFree(data_); }
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Memory& operator=(Memory&&) = delete;

  template <class T = std::uint8_t>
  T* at(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<std::uint8_t*>(data_) + offset);
  }
  template <class T = std::uint8_t>
  std::vector<T> values() const {
    std::vector<T> all(bytes_ / sizeof(T));
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(all.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return all;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

// How the pixels of a picture lie.
enum class Form { Interleaved, Grey, S444, S422, S440, S420 };
constexpr Form kPlanar[] = {Form::Grey, Form::S444, Form::S422, Form::S440, Form::S420};

struct Source {
  int width, height, orientation;
  Form form = Form::Interleaved;
};

// A picture in planes, of bytes without any order, with more than the width from row to row.
struct PlanarPicture {
  explicit PlanarPicture(const Source& source) {
    planes.width = source.width;
    planes.height = source.height;
    planes.across = source.form == Form::S422 || source.form == Form::S420 ? 2 : 1;
    planes.down = source.form == Form::S440 || source.form == Form::S420 ? 2 : 1;
    planes.luma_pitch = source.width + 5;
    planes.chroma_pitch = (source.width + planes.across - 1) / planes.across + 3;
    chroma_rows = (source.height + planes.down - 1) / planes.down;
    grey = source.form == Form::Grey;
    bytes = test::patterned_picture(planes.luma_pitch, source.height + 2 * chroma_rows).rgb;
  }
  // Of the bytes where they lie, which may be on the device.
  PlanesView view(const std::uint8_t* at, int orientation) const {
    Planes placed = planes;
    placed.luma = at;
    if (!grey) {
      placed.cb = at + std::ptrdiff_t{planes.luma_pitch} * planes.height;
      placed.cr = placed.cb + std::ptrdiff_t{planes.chroma_pitch} * chroma_rows;
    }
    return oriented_view(placed, orientation);
  }

  Planes planes;
  int chroma_rows;
  bool grey;
  std::vector<std::uint8_t> bytes;
};

struct Case {
  int short_side, crop_width, crop_height;
};

constexpr std::size_t kGuard = 64;  // bytes behind the results, which must stay
constexpr int kGuardValue = 0xA5;

// All pictures in one launch, in all three forms of output, against the CPU.
void compare(const std::vector<Source>& sources, const Case& one, Normalization normalization = Normalization::Torch) {
  Preprocessing how;
  how.resize_to = one.short_side;
  how.crop_width = one.crop_width;
  how.crop_height = one.crop_height;
  how.normalization = normalization;
  std::vector<Memory> pixels;
  std::vector<Picture> pictures;  // as seen, but for those that are interleaved
  std::vector<PlanesView> planes;
  for (const Source& source : sources) {
    planes.emplace_back();
    if (source.form == Form::Interleaved) {
      pictures.push_back(test::patterned_picture(source.width, source.height));
      pixels.emplace_back(pictures.back().rgb.data(), pictures.back().rgb.size());
    } else {
      const PlanarPicture planar(source);
      pictures.push_back(copied(planar.view(planar.bytes.data(), source.orientation)));
      pixels.emplace_back(planar.bytes.data(), planar.bytes.size());
      planes.back() = planar.view(pixels.back().at(), source.orientation);
    }
  }
  for (const ResizeOutput output : {ResizeOutput::Bytes, ResizeOutput::FloatsNchw, ResizeOutput::FloatsNhwc}) {
    const std::size_t bytes = how.elements() * (output == ResizeOutput::Bytes ? 1 : sizeof(float));
    const Memory results(sources.size() * bytes + kGuard, kGuardValue);
    ResizeParams params{static_cast<int>(sources.size()),
                        one.crop_width,
                        one.crop_height,
                        output,
                        pixel_scale(normalization),
                        0,
                        false};
    std::vector<ResizeTask> tasks;
    std::vector<PixelView> views;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const bool planar = sources[i].form != Form::Interleaved;
      params.planar = params.planar || planar;
      const auto view_of = [&](const std::uint8_t* rgb) {
        return oriented_view(rgb, pictures[i].width, pictures[i].height, std::int64_t{pictures[i].width} * 3,
                             planar ? kUpright : sources[i].orientation);
      };
      views.push_back(view_of(pictures[i].rgb.data()));
      const PixelView view = view_of(planar ? nullptr : pixels[i].at());
      const CropGeometry crop = crop_geometry(view.width, view.height, how);
      tasks.push_back({view.origin, view.step_x, view.step_y, planes[i], view.width, view.height, crop.width,
                       crop.height, crop.left, crop.top, results.at(i * bytes)});
      params.most_taps =
          std::max({params.most_taps, most_taps(view.width, crop.width), most_taps(view.height, crop.height)});
    }
    const Memory device_tasks(tasks.data(), tasks.size() * sizeof(ResizeTask));
    check(resize_batch(params, device_tasks.at<const ResizeTask>(), nullptr));
    const std::vector<std::uint8_t> got = results.values();
    for (std::size_t i = 0; i < sources.size(); ++i) {
      CAPTURE(i, sources[i].width, sources[i].height, sources[i].orientation, static_cast<int>(sources[i].form),
              static_cast<int>(output));
      std::vector<std::uint8_t> expected(bytes);
      if (output == ResizeOutput::Bytes) {
        prepare(views[i], how, std::span(expected));
      } else {
        how.layout = output == ResizeOutput::FloatsNchw ? Layout::NCHW : Layout::NHWC;
        std::vector<float> floats(how.elements());
        prepare(views[i], how, std::span(floats));
        std::memcpy(expected.data(), floats.data(), bytes);
      }
      CHECK(std::memcmp(got.data() + i * bytes, expected.data(), bytes) == 0);
    }
    for (std::size_t i = 0; i < kGuard; ++i) REQUIRE(got[sources.size() * bytes + i] == kGuardValue);
  }
}

}  // namespace

TEST_CASE("resizing equals the CPU in every bit, for pictures of many sizes in one launch",
          "[resize_batch][sanitize]") {
  compare({{40, 30, 1}, {30, 41, 1}, {97, 20, 1}, {24, 24, 1}, {5, 7, 1}, {1, 1, 1}, {200, 150, 1}, {65, 33, 1}},
          {24, 21, 18});
}

TEST_CASE("resizing reads turned pictures in all eight ways", "[resize_batch][sanitize]") {
  std::vector<Source> sources;
  for (int orientation = 1; orientation <= 8; ++orientation) sources.push_back({37, 23, orientation});
  compare(sources, {16, 15, 13}, Normalization::Tf);
}

TEST_CASE("resizing of crops of several tiles", "[resize_batch][sanitize]") {
  compare({{150, 120, 1}, {70, 90, 6}}, {80, 70, 35});
  compare({{80, 80, 1}}, {65, 65, 17});
}

TEST_CASE("resizing of huge pictures to few pixels", "[resize_batch][sanitize]") {
  compare({{300, 310, 1}}, {8, 5, 7});  // more rows than are stored at a time
  compare({{400, 330, 3}}, {4, 4, 3});  // more weights than are stored
  compare({{900, 7, 1}}, {7, 7, 7});    // as it is along one axis
}

TEST_CASE("resizing of pictures in planes equals the CPU in every bit, whatever their chroma",
          "[resize_batch][sanitize]") {
  for (const Form form : kPlanar) {
    CAPTURE(static_cast<int>(form));
    compare({{40, 30, 1, form},
             {31, 41, 1, form},
             {97, 21, 1, form},
             {5, 7, 1, form},
             {4, 9, 1, form},
             {1, 1, 1, form},
             {2, 3, 1, form},
             {151, 120, 1, form},
             {64, 48, 1}},
            {24, 21, 18});
    std::vector<Source> turned;
    for (int orientation = 1; orientation <= 8; ++orientation) turned.push_back({37, 23, orientation, form});
    compare(turned, {16, 15, 13}, Normalization::Tf);
  }
}

TEST_CASE("resizing of pictures in planes that do not fit into shared memory", "[resize_batch][sanitize]") {
  compare({{300, 310, 1, Form::S420}, {401, 331, 6, Form::S422}}, {8, 5, 7});
  compare({{4500, 70, 1, Form::S420}}, {1, 64, 1});                             // some rows at a time
  compare({{5001, 9, 3, Form::S420}}, {1, 1, 1});                               // weights at each use
  compare({{8600, 68, 1, Form::S444}, {8601, 67, 2, Form::S420}}, {1, 80, 1});  // not one row of 64 columns
}

TEST_CASE("resizing of pictures as cameras and data sets have them", "[resize_batch][slow]") {
  compare({{500, 375, 1}, {375, 500, 6}, {256, 256, 1}, {640, 480, 8}, {1600, 1200, 1}, {4000, 3000, 1}, {31, 31, 1}},
          {256, 224, 224});
  compare(
      {{500, 375, 1, Form::S420}, {375, 500, 6, Form::S422}, {1601, 1201, 8, Form::S420}, {640, 480, 1, Form::Grey}},
      {256, 224, 224});
  compare({{500, 375, 1}, {1024, 768, 1}}, {439, 384, 384});
}

TEST_CASE("a launch without pictures, or of impossible sizes", "[resize_batch][sanitize]") {
  ResizeParams params{0, 8, 8, ResizeOutput::Bytes, kTfScale, 3, false};
  CHECK(resize_batch(params, nullptr, nullptr) == cudaSuccess);
  params.crop_width = 0;
  CHECK(resize_batch(params, nullptr, nullptr) == cudaErrorInvalidValue);
  CHECK(fill_marks(nullptr, 7, nullptr) == cudaErrorInvalidValue);
  CHECK(fill_marks(nullptr, 0, nullptr) == cudaSuccess);
  CHECK(check_marks(0, nullptr, nullptr, nullptr) == cudaSuccess);
}

TEST_CASE("pictures that a decoder did not write are seen, whole or in part", "[resize_batch][sanitize]") {
  constexpr std::size_t kBytes = 1 << 16;
  const Memory memory(kBytes);
  check(fill_marks(memory.at(), kBytes, nullptr));
  struct Written {
    std::size_t offset;
    int width, height;
    double part;  // that is written, from the start
  };
  const std::vector<Written> all{{0, 50, 40, 1},   {6144, 50, 40, 0}, {12288, 50, 40, 0.5}, {18432, 50, 40, 0.97},
                                 {24576, 1, 1, 1}, {24832, 1, 1, 0},  {25088, 7, 2, 1},     {25344, 7, 2, 0}};
  std::vector<MarkedPicture> pictures;
  for (const Written& one : all) {
    const auto bytes = static_cast<std::size_t>(one.width * one.height * 3 * one.part);
    if (bytes > 0) {
      const std::vector<std::uint8_t> rgb(bytes, 77);
      check(cudaMemcpy(memory.at(one.offset), rgb.data(), bytes, cudaMemcpyHostToDevice));
    }
    pictures.push_back({memory.at(), {{memory.at(one.offset), 3 * one.width, one.height, 3 * one.width}}, 1});
  }
  const Memory device_pictures(pictures.data(), pictures.size() * sizeof(MarkedPicture));
  const Memory missing(pictures.size() * sizeof(std::uint32_t), 0xFF);
  check(check_marks(static_cast<int>(pictures.size()), device_pictures.at<const MarkedPicture>(),
                    missing.at<std::uint32_t>(), nullptr));
  const auto counts = missing.values<std::uint32_t>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    if (all[i].part == 1) CHECK(counts[i] == 0);
    if (all[i].part < 1) CHECK(counts[i] > 0);
    if (all[i].part == 0) CHECK(counts[i] == 32);
  }
}

TEST_CASE("planes that a decoder did not write are seen, each of them", "[resize_batch][sanitize]") {
  for (const Sampling sampling : kAllSamplings) {
    for (const auto& [width, height] : {std::pair{61, 43}, {200, 9}, {5, 4}}) {
      const PlaneLayout layout(width, height, sampling);
      const Memory memory(static_cast<std::size_t>(layout.bytes()));
      const MarkedPicture picture = layout.marked(memory.at(), memory.at());
      CHECK(picture.count == (sampling == Sampling::Grey ? 1 : 3));
      // All planes written, then all but one, then all but the end of one.
      for (int left_out = -1; left_out < 2 * picture.count; ++left_out) {
        check(fill_marks(memory.at(), layout.bytes(), nullptr));
        for (int i = 0; i < picture.count; ++i) {
          if (i == left_out) continue;
          const MarkedPlane& plane = picture.planes[i];
          const int rows = i + picture.count == left_out ? plane.rows - 1 : plane.rows;
          for (int row = 0; row < rows; ++row) {
            check(cudaMemset(
                memory.at(static_cast<std::size_t>(plane.bytes - memory.at() + std::ptrdiff_t{row} * plane.pitch)), 77,
                static_cast<std::size_t>(plane.row_bytes)));
          }
        }
        const Memory device_picture(&picture, sizeof picture);
        const Memory missing(sizeof(std::uint32_t), 0xFF);
        check(check_marks(1, device_picture.at<const MarkedPicture>(), missing.at<std::uint32_t>(), nullptr));
        CAPTURE(to_string(sampling), width, height, left_out);
        CHECK((missing.values<std::uint32_t>().at(0) > 0) == (left_out >= 0));
      }
    }
  }
}

TEST_CASE("planes lie apart, with room for whole blocks", "[resize_batch]") {
  for (const Sampling sampling : kAllSamplings) {
    for (int width = 1; width <= 140; width += 3) {
      for (int height = 1; height <= 40; ++height) {
        const PlaneLayout layout(width, height, sampling);
        std::vector<std::uint8_t> memory(static_cast<std::size_t>(layout.bytes()));
        const nvjpeg::Image image = layout.image(memory.data());
        const Planes planes = layout.planes(memory.data());
        const int across = luma_across(sampling);
        const int down = luma_down(sampling);
        const auto blocks = [](int samples, int of) { return (samples + 8 * of - 1) / (8 * of) * 8; };
        const auto luma_end = image.channel[0] + image.pitch[0] * static_cast<std::size_t>(blocks(height, down) * down);
        const auto chroma = image.pitch[1] * static_cast<std::size_t>(blocks(height, down));
        REQUIRE(image.pitch[0] >= static_cast<std::size_t>(blocks(width, across) * across));
        REQUIRE(image.pitch[1] >= static_cast<std::size_t>(blocks(width, across)));
        REQUIRE(luma_end <= image.channel[1]);
        REQUIRE(image.channel[1] + chroma <= image.channel[2]);
        REQUIRE(image.channel[2] + chroma <= memory.data() + memory.size());
        REQUIRE(planes.luma == image.channel[0]);
        REQUIRE(planes.cb == (sampling == Sampling::Grey ? nullptr : image.channel[1]));
        REQUIRE(planes.cr == (sampling == Sampling::Grey ? nullptr : image.channel[2]));
      }
    }
  }
}
