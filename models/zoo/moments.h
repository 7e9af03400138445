#pragma once

#include <cstdint>

namespace mobicuda::zoo {

/// What is known of a channel's values over pictures and pixels while weights are drawn.
struct Moments {
  double mean = 0.0;
  double variance = 1.0;
};

/// Deviation to give channels in front of x * sigmoid(x). Where they have 1, one that comes out a little wide comes out
/// wider still behind it, and 16 blocks later all or nothing is left of the picture; here wide stays as wide.
constexpr double kSwishGain = 2.5;

// What operators make of a channel that is taken to be normal. All of them use + - * / and sqrt only: exp and erf
// round differently from platform to platform, and the files must not.
Moments after_relu(const Moments& x);
Moments after_tanh(const Moments& x);
Moments after_sigmoid(const Moments& x);
Moments after_hard_sigmoid(const Moments& x);
/// x * sigmoid(x), also with the hard sigmoid, of a channel whose deviation is about kSwishGain.
Moments after_swish(const Moments& x);
Moments after_max_pool(const Moments& x, std::int64_t window);
Moments after_average_pool(const Moments& x, std::int64_t window);
Moments after_global_pool(const Moments& x);
Moments sum_of(const Moments& a, const Moments& b);
Moments product_of(const Moments& a, const Moments& b);

}  // namespace mobicuda::zoo
