// The one translation unit that holds stb_image's code; JPEG is libjpeg-turbo's business, and PNM, which stb_image
// reads past its end where it has 16 bits, that of pnm.cpp.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "pictures/decode/stb_memory.h"

namespace mobicuda::pictures {
namespace {

thread_local std::size_t most_bytes = SIZE_MAX;
thread_local bool refused_bytes = false;

bool within_limit(std::size_t bytes) {
  refused_bytes = refused_bytes || bytes > most_bytes;
  return bytes <= most_bytes;
}

void* limited_malloc(std::size_t bytes) { return within_limit(bytes) ? std::malloc(bytes) : nullptr; }

void* limited_realloc(void* memory, std::size_t bytes) {
  return within_limit(bytes) ? std::realloc(memory, bytes) : nullptr;
}

// A PNG file may have chunks of no data, for which stb_image has no memory either: null is not for memcpy().
void* copy_bytes(void* to, const void* from, std::size_t bytes) {
  return bytes == 0 ? to : std::memcpy(to, from, bytes);
}

}  // namespace

StbMemoryLimit::StbMemoryLimit(std::size_t bytes) noexcept : before_(most_bytes) {
  most_bytes = bytes;
  refused_bytes = false;
}

StbMemoryLimit::~StbMemoryLimit() { most_bytes = before_; }

bool StbMemoryLimit::exceeded() const noexcept { return refused_bytes; }

}  // namespace mobicuda::pictures

#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_NO_JPEG
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_PSD
#define STBI_NO_PIC
#define STBI_NO_PNM
#define STBI_NO_TGA
#define STBI_NO_GIF
#define STBI_MALLOC(bytes) mobicuda::pictures::limited_malloc(bytes)
#define STBI_REALLOC(memory, bytes) mobicuda::pictures::limited_realloc(memory, bytes)
#define STBI_FREE(memory) std::free(memory)
#define memcpy(to, from, bytes) mobicuda::pictures::copy_bytes(to, from, bytes)  // NOLINT: as stb_image calls it
#include <stb_image.h>
