// What is used of nvJPEG, declared here: the toolkit's nvjpeg.h is not needed to build, nor the library to link. Names,
// values and signatures are those of nvJPEG 12 and 13.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace mobicuda::pictures::nvjpeg {

using Status = int;  ///< nvjpegStatus_t
inline constexpr Status kSuccess = 0;

using Handle = struct HandleTag*;
using State = struct StateTag*;
using JpegStream = struct JpegStreamTag*;

inline constexpr int kBackendDefault = 0;
inline constexpr int kBackendGpuHybrid = 2;  ///< of batches of 51 and more the GPU reads the codes too
inline constexpr int kBackendHardware = 3;
inline constexpr unsigned kSmoothChroma = 32;  ///< of create(): RGB is made of chroma that is interpolated
inline constexpr int kOutputPlanes = 1;        ///< Y, Cb and Cr as they are stored
inline constexpr int kOutputRgbInterleaved = 5;

struct Image {
  unsigned char* channel[4];
  std::size_t pitch[4];
};

struct Api {
  Status (*get_property)(int type, int* value);  ///< 0: major, 1: minor version
  Status (*create)(int backend, void* device_allocator, void* pinned_allocator, unsigned flags, Handle* handle);
  Status (*destroy)(Handle handle);
  Status (*state_create)(Handle handle, State* state);
  Status (*state_destroy)(State state);
  Status (*decode)(Handle handle, State state, const unsigned char* data, std::size_t length, int output,
                   Image* destination, cudaStream_t stream);
  Status (*batch_initialize)(Handle handle, State state, int batch, int cpu_threads, int output);
  Status (*batch_decode)(Handle handle, State state, const unsigned char* const* data, const std::size_t* lengths,
                         Image* destinations, cudaStream_t stream);
  Status (*batch_supported)(Handle handle, JpegStream stream, int* refused);  ///< 0: supported
  Status (*stream_create)(Handle handle, JpegStream* stream);
  Status (*stream_destroy)(JpegStream stream);
  Status (*stream_parse_header)(Handle handle, const unsigned char* data, std::size_t length, JpegStream stream);
};

}  // namespace mobicuda::pictures::nvjpeg
