#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace mobicuda::test {

// How far a result may lie from the fp64 oracle's. Derived in docs/numerics.md; nothing here is tuned.

inline constexpr double kUnitF32 = 0x1p-24;           ///< unit roundoff of float
inline constexpr double kUnitF64 = 0x1p-52;           ///< of double twice, for the oracle rounds as well
inline constexpr double kUnitF16 = 0x1p-11;           ///< of half
inline constexpr double kUnitTruncatedF32 = 0x1p-23;  ///< of a float accumulator that truncates (tensor cores)

/// A storage format: rounding to it costs unit * |y|, or `underflow` near zero.
struct Store {
  double unit;
  double underflow;  ///< half of the smallest subnormal
};
inline constexpr Store kStoreF32{kUnitF32, 0x1p-150};
inline constexpr Store kStoreF16{kUnitF16, 0x1p-25};
inline constexpr Store kStoreF64{kUnitF64, 0x1p-1074};

/// Relative error of a sum of `products` products plus a bias and a residual, in any order, each operation
/// rounding with `unit`: (K + 2) u / (1 - (K + 2) u).
double gamma(std::int64_t products, double unit = kUnitF32);

/// The same for Winograd's F(2x2, 3x3) over so many channels, with winograd_magnitude() in the place of sum |a||b|. A
/// filter of 5x5 is four, each over all channels.
double gamma_winograd(std::int64_t kernel, std::int64_t channels, double unit = kUnitF32);

/// The same for tensor cores that align a block's products to the largest one and truncate.
double gamma_tensor_core(std::int64_t products);

/// The same for split products (precision fp32_split).
double gamma_split(std::int64_t products);

/// What split products of numbers near zero add to that, of factors up to x and w.
double split_error_of_tiny(std::int64_t products, double x, double w);

/// Hard bound for one element: gamma * magnitude + rounding to storage. `magnitude` is
/// sum |a||b| + |bias| + |residual|. A correct kernel cannot exceed it.
double hard_bound(double gamma, double magnitude, double expected, Store store);

/// hard_bound() for every element.
std::vector<double> hard_bounds(double gamma, std::span<const double> magnitude, std::span<const double> expected,
                                Store store);

/// Alarm for a whole tensor of random-sign data: relative L2 error of a sum of K products.
double rel_l2_alarm(std::int64_t products, Store store);

/// The same for split products.
double split_rel_l2_alarm(std::int64_t products);

/// Relative error of one softmax output: (48 + |x - max|) u, for rows of up to kSoftmaxColumns.
double softmax_relative_error(double distance_to_max, double unit = kUnitF32);
inline constexpr std::int64_t kSoftmaxColumns = 1024;
inline constexpr double kSoftmaxRowSum = 1e-5;  ///< allowed distance of a row's sum from 1

/// Error of one output y of a softmax's logarithm: (48 + 3 |y|) u, for rows as long.
double log_softmax_error(double y, double unit = kUnitF32);

/// A comparator's verdict; converts to bool and prints the reason.
struct Comparison {
  bool ok = true;
  std::size_t index = 0;  ///< first bad element
  std::string reason;     ///< empty when ok; says coordinates, values and bound
  double worst = 0.0;     ///< largest error / allowed over the tensor (element-wise), or the relative L2 error
  explicit operator bool() const { return ok; }
};
std::ostream& operator<<(std::ostream& out, const Comparison& comparison);

// `shape` (row-major extents, optional) is for the coordinates in the message.

/// |actual - expected| <= allowed at every element. A NaN or infinity must be met by the same.
Comparison compare_elements(std::span<const float> actual, std::span<const double> expected,
                            std::span<const double> allowed, std::span<const int> shape = {});

/// ||actual - expected|| <= limit * ||expected||, both finite.
Comparison compare_rel_l2(std::span<const float> actual, std::span<const double> expected, double limit);

/// The same bits; any NaN equals any NaN.
Comparison compare_bits(std::span<const float> actual, std::span<const float> expected,
                        std::span<const int> shape = {});

/// Equal numbers (-0 equals 0), NaN equals NaN: for the exact mode on whole numbers.
Comparison compare_exact(std::span<const float> actual, std::span<const double> expected,
                         std::span<const int> shape = {});

}  // namespace mobicuda::test
