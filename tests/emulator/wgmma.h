// Products of a warpgroup (wgmma), as each of its warps sees them: under way from their start until they are waited
// for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace mobicuda::emulator {

/// What a lane brings to d (64 x n) = a (64 x 16) * b (16 x n) [+ d], n = 2 * sums: halves and floats, or, in the place
/// of each half, two bytes of 32 along k, and integers.
struct WarpgroupProduct {
  void* d = nullptr;  ///< its sums: float or std::int32_t
  int sums = 0;
  bool bytes = false;
  bool adds = false;
  const std::uint32_t* a[4]{};  ///< registers; null: in shared memory
  std::uint64_t a_descriptor = 0, b_descriptor = 0;
  bool transposed_b = false;  ///< b's rows in shared memory run along n
  bool transposed_a = false;  ///< a's rows in shared memory run along its own

  /// Whether the other lane is at the same instruction with the same operands in shared memory.
  bool is_like(const WarpgroupProduct& other) const;
};

/// The products that a warp has begun. Each function is called once for all lanes, in the order of the program.
///
/// A product reads its operands until it is waited for: they are compared with what they were. Its sums are NaN until
/// then, and nobody else's.
class WarpProducts {
 public:
  /// `operands`: a WarpgroupProduct of each lane. `warp`: of the warpgroup's four.
  void start(void* const* operands, unsigned warp);
  void fence() { fenced_ = true; }
  void commit() { ++groups_; }
  /// Until at most `pending` committed groups are under way.
  void wait(int pending);
  bool under_way() const { return !products_.empty(); }

 private:
  static constexpr std::size_t kLanes = 32;

  /// A warp's sums, 16 rows.
  struct Sums {
    std::array<unsigned char*, kLanes> lanes{};
    int columns = 0;
    std::vector<float> values;           // (row, column)
    std::vector<std::int32_t> integers;  // the same where products are of bytes
    int products = 0;                    // under way

    void* at(std::size_t place, bool bytes) {
      return bytes ? static_cast<void*>(&integers[place]) : static_cast<void*>(&values[place]);
    }
  };

  struct Product {
    int group = 0;
    std::shared_ptr<Sums> sums;
    WarpgroupProduct what;  // of lane 0
    unsigned warp = 0;
    std::array<std::array<const std::uint32_t*, 4>, kLanes> registers{};
    std::vector<std::uint16_t> a, b;  // (row, k), (column, k)
  };

  std::shared_ptr<Sums> sums_of(void* const* operands);
  static void read_a(const Product& product, std::vector<std::uint16_t>& a);
  static void finish(const Product& product);

  std::deque<Product> products_;
  std::vector<std::shared_ptr<Sums>> sums_;  // under way
  int groups_ = 0;                           // committed
  bool fenced_ = false;
};

/// The four warps of a warpgroup begin the same products.
class Warpgroup {
 public:
  /// The next product of a warp.
  void start(unsigned warp, const WarpgroupProduct& product);
  /// Whether no warp has begun more than another.
  bool is_even() const { return begun_.empty(); }

 private:
  std::array<std::size_t, 4> counts_{};
  std::deque<WarpgroupProduct> begun_;  // by some of the warps
  std::size_t by_all_ = 0;
};

}  // namespace mobicuda::emulator
