// What the host code of several families of fused inverted residual kernels does alike.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <cuda_fp16.h>

#include "kernels/inverted_residual/inverted_residual.h"

namespace mobicuda::kernels::inverted_host {

inline void put_half(unsigned char* to, float value) {
  const __half half = __float2half_rn(value);
  std::memcpy(to, &half, sizeof half);
}

inline void put_halves(unsigned char* to, float first, float second) {
  put_half(to, first);
  put_half(to + sizeof(__half), second);
}

/// A bias; zero where there are none.
inline float bias_at(const float* from, int index) { return from != nullptr ? from[index] : 0.0F; }
inline void put_float(unsigned char* to, const float* from, int index) {
  const float value = bias_at(from, index);
  std::memcpy(to, &value, sizeof value);
}

/// Whether the activations of hidden values are of that kind: after expand, where there is one, and after depthwise.
inline bool hidden_are(const InvertedResidualParams& p, ActivationKind kind) {
  return (!p.expand || p.expand_activation.kind == kind) && p.depthwise_activation.kind == kind;
}
inline bool clips(const InvertedResidualParams& p) { return hidden_are(p, ActivationKind::Clip); }
inline bool hard_swishes(const InvertedResidualParams& p) { return hidden_are(p, ActivationKind::HardSwish); }

/// The bounds of one that is a clip.
inline Clip clip_of(const Activation& activation) { return {activation.lo, activation.hi}; }

/// ReLU6, ReLU and the like after expand, where there is one, and after depthwise, or HardSwish where Config has it.
template <class Config>
bool activations_fit(const InvertedResidualParams& p, const Config& config) {
  if constexpr (requires { config.hard_swish; }) {
    if (config.hard_swish != 0) return hard_swishes(p);
  }
  const auto fits = [](const Activation& clip) { return clip.lo == 0.0F && clip.hi >= 0.0F; };
  return clips(p) && (!p.expand || fits(p.expand_activation)) && fits(p.depthwise_activation);
}

/// Of hidden values, finite: infinite ones would meet the zeros of the depthwise convolution's diagonal matrices. All
/// bits where they are hard-swished (hidden_halves.cuh).
inline __half2 hidden_bound(const InvertedResidualParams& p) {
  constexpr float kLargestHalf = 65504.0F;
  if (!hard_swishes(p)) return __float2half2_rn(std::min(p.expand_activation.hi, kLargestHalf));
  constexpr unsigned short kAllBits = 0xFFFF;
  return __half2_raw{kAllBits, kAllBits};
}

/// The element, and exactly the channels that a variant's Config has.
template <class Config>
bool channels_fit(const InvertedResidualParams& p, const Config& config, Elem elem = Elem::F16) {
  return p.elem == elem && p.c_in == config.c_in && p.c_hidden == config.c_hidden && p.c_out == config.c_out;
}

/// The extents that the Arguments of most kernels have.
template <class Arguments>
void set_extents(Arguments& a, const InvertedResidualParams& p) {
  a.h = p.h;
  a.w = p.w;
  a.out_h = p.out_h;
  a.out_w = p.out_w;
  a.pad_top = p.pad_top;
  a.pad_left = p.pad_left;
  a.residual = p.residual;
}

}  // namespace mobicuda::kernels::inverted_host
