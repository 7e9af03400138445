#include "pictures/gpu/plane_layout.h"

namespace mobicuda::pictures {
namespace {

constexpr int kDctBlock = 8;  // samples of a DCT block along one axis
constexpr int kLine = 256;    // bytes: as cudaMallocPitch() has it

int whole_blocks(int number, int to) { return (number + to - 1) / to * to; }

}  // namespace

PlaneLayout::PlaneLayout(int width, int height, Sampling sampling) noexcept
    : width_(width), height_(height), sampling_(sampling) {
  const int across = luma_across(sampling);
  const int down = luma_down(sampling);
  luma_pitch_ = whole_blocks(width, kLine * across);
  chroma_pitch_ = luma_pitch_ / across;
  const int rows = whole_blocks(height, kDctBlock * down);
  chroma_ = std::int64_t{luma_pitch_} * rows;
  chroma_bytes_ = std::int64_t{chroma_pitch_} * (rows / down);
}

nvjpeg::Image PlaneLayout::image(std::uint8_t* memory) const noexcept {
  nvjpeg::Image image{};
  image.channel[0] = memory;
  image.channel[1] = memory + chroma_;
  image.channel[2] = memory + chroma_ + chroma_bytes_;
  image.pitch[0] = static_cast<std::size_t>(luma_pitch_);
  image.pitch[1] = image.pitch[2] = static_cast<std::size_t>(chroma_pitch_);
  return image;
}

Planes PlaneLayout::planes(const std::uint8_t* memory) const noexcept {
  Planes planes;
  planes.luma = memory;
  if (sampling_ != Sampling::Grey) {
    planes.cb = memory + chroma_;
    planes.cr = planes.cb + chroma_bytes_;
  }
  planes.luma_pitch = luma_pitch_;
  planes.chroma_pitch = chroma_pitch_;
  planes.width = width_;
  planes.height = height_;
  planes.across = luma_across(sampling_);
  planes.down = luma_down(sampling_);
  return planes;
}

MarkedPicture PlaneLayout::marked(const std::uint8_t* filled, const std::uint8_t* memory) const noexcept {
  const Planes of = planes(memory);
  MarkedPicture marked{};
  marked.memory = filled;
  marked.planes[0] = {of.luma, width_, height_, luma_pitch_};
  marked.count = 1;
  if (of.cb == nullptr) return marked;
  const int columns = (width_ + of.across - 1) / of.across;
  const int rows = (height_ + of.down - 1) / of.down;
  marked.planes[1] = {of.cb, columns, rows, chroma_pitch_};
  marked.planes[2] = {of.cr, columns, rows, chroma_pitch_};
  marked.count = 3;
  return marked;
}

}  // namespace mobicuda::pictures
