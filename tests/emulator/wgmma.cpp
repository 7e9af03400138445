#include "emulator/wgmma.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "emulator/emulator.h"

namespace mobicuda::emulator {
namespace {

constexpr int kRows = 16;  // of a warp
constexpr int kK = 16;
constexpr std::size_t kWord = 4;  // bytes of a sum
constexpr int kRun = 8;           // halves that are side by side in every layout: 16 bytes
constexpr std::uint32_t kPoison = 0x7FFFDEAD;

/// The matrix descriptor of wgmma (PTX ISA, "Matrix Descriptor Format").
struct Descriptor {
  std::uint32_t start, leading, stride;  // bytes
  bool swizzled;                         // by 128 bytes

  explicit Descriptor(std::uint64_t bits)
      : start(field(bits, 0)), leading(field(bits, 16)), stride(field(bits, 32)), swizzled(bits >> 62U == 1) {
    constexpr std::uint64_t kKnown = 0x3FFFULL | 0x3FFFULL << 16U | 0x3FFFULL << 32U | 1ULL << 62U;
    if ((bits & ~kKnown) != 0) fail("a descriptor of wgmma whose layout is not played");
  }

  static constexpr std::uint32_t kSwizzledRow = 128;
  static std::uint32_t field(std::uint64_t bits, unsigned at) { return (bits >> at & 0x3FFFU) * 16; }
};

/// 16 of k of `extent` rows of a, from `first` on, or columns of b. `transposed`: k goes from row to row in shared
/// memory.
void read_operand(std::uint64_t bits, int first, int extent, bool transposed, std::vector<std::uint16_t>& to) {
  const Descriptor d(bits);
  to.resize(static_cast<std::size_t>(extent) * kK);
  const auto read = [&](std::uint32_t offset, std::uint16_t(&run)[kRun]) {
    std::uint32_t at = d.start + offset;
    if (d.swizzled) at ^= (at / Descriptor::kSwizzledRow % 8) * 16;
    std::memcpy(run, shared_for_engine(at, sizeof run), sizeof run);
  };
  std::uint16_t run[kRun];
  if (transposed) {
    if (!d.swizzled || extent % kRun != 0) fail("a transposed operand of wgmma whose layout is not played");
    if (d.start / Descriptor::kSwizzledRow % 8 != 0) fail("a transposed operand that begins within 8 rows");
    constexpr int kPanel = Descriptor::kSwizzledRow / 2;
    for (int k = 0; k < kK; ++k) {
      for (int column = 0; column < extent; column += kRun) {
        const int at = first + column;
        read(static_cast<std::uint32_t>(at / kPanel) * d.leading + static_cast<std::uint32_t>(k / 8) * d.stride +
                 static_cast<std::uint32_t>(k % 8) * Descriptor::kSwizzledRow +
                 static_cast<std::uint32_t>(at % kPanel * 2),
             run);
        for (int i = 0; i < kRun; ++i) to[static_cast<std::size_t>((column + i) * kK + k)] = run[i];
      }
    }
    return;
  }
  if (d.swizzled && d.start % Descriptor::kSwizzledRow > Descriptor::kSwizzledRow - kK * 2) {
    fail("a step of a swizzled operand that lies in two rows");
  }
  const std::uint32_t row_bytes = d.swizzled ? Descriptor::kSwizzledRow : kRun * 2;
  const std::uint32_t next_k = d.swizzled ? kRun * 2 : d.leading;
  for (int i = 0; i < extent; ++i) {
    const int row = first + i;
    for (int k = 0; k < kK; k += kRun) {
      read(static_cast<std::uint32_t>(row / 8) * d.stride + static_cast<std::uint32_t>(row % 8) * row_bytes +
               static_cast<std::uint32_t>(k / kRun) * next_k,
           run);
      std::copy_n(run, kRun, to.begin() + i * kK + k);
    }
  }
}

const WarpgroupProduct& of_lane(void* const* operands, std::size_t lane) {
  return *static_cast<const WarpgroupProduct*>(operands[lane]);
}

/// Where a lane's sum lies: rows lane / 4 and + 8, of every 8 columns a pair.
std::size_t place(std::size_t lane, int sum, int columns) {
  const int row = static_cast<int>(lane) / 4 + sum / 2 % 2 * 8;
  return static_cast<std::size_t>(row * columns + sum / 4 * 8 + static_cast<int>(lane) % 4 * 2 + sum % 2);
}

/// d (row, column) += a (row, k) * b (column, k), two bytes in each element of a and b; modulo 2^32.
void multiply_bytes(std::size_t columns, const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b,
                    std::vector<std::int32_t>& d) {
  const auto half = [](std::uint16_t pair, unsigned which) {
    return static_cast<std::int32_t>(static_cast<std::int8_t>(pair >> which * 8U & 0xFFU));
  };
  for (std::size_t at = 0; at < d.size(); ++at) {
    const std::uint16_t* const x = a.data() + at / columns * kK;
    const std::uint16_t* const w = b.data() + at % columns * kK;
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < kK; ++k) sum += half(x[k], 0) * half(w[k], 0) + half(x[k], 1) * half(w[k], 1);
    d[at] = static_cast<std::int32_t>(static_cast<std::uint32_t>(d[at]) + static_cast<std::uint32_t>(sum));
  }
}

}  // namespace

bool WarpgroupProduct::is_like(const WarpgroupProduct& other) const {
  return sums == other.sums && bytes == other.bytes && adds == other.adds &&
         (a[0] == nullptr) == (other.a[0] == nullptr) && a_descriptor == other.a_descriptor &&
         b_descriptor == other.b_descriptor && transposed_b == other.transposed_b && transposed_a == other.transposed_a;
}

std::shared_ptr<WarpProducts::Sums> WarpProducts::sums_of(void* const* operands) {
  const WarpgroupProduct& first = of_lane(operands, 0);
  for (const std::shared_ptr<Sums>& sums : sums_) {
    if (sums->lanes[0] != first.d) continue;
    if (sums->columns != first.sums * 2 || sums->integers.empty() == first.bytes)
      fail("products of two shapes with the same sums, without a wait between");
    return sums;
  }
  auto sums = std::make_shared<Sums>();
  sums->columns = first.sums * 2;
  const auto count = static_cast<std::size_t>(kRows * sums->columns);
  if (first.bytes) {
    sums->integers.resize(count);
  } else {
    sums->values.resize(count);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    auto* d = static_cast<unsigned char*>(of_lane(operands, lane).d);
    sums->lanes[lane] = d;
    for (int i = 0; i < first.sums; ++i, d += kWord) {
      if (first.adds) std::memcpy(sums->at(place(lane, i, sums->columns), first.bytes), d, kWord);
      std::memcpy(d, &kPoison, kWord);
    }
  }
  sums_.push_back(sums);
  return sums;
}

void WarpProducts::read_a(const Product& product, std::vector<std::uint16_t>& a) {
  if (product.what.a[0] == nullptr) {
    read_operand(product.what.a_descriptor, static_cast<int>(product.warp) * kRows, kRows, product.what.transposed_a,
                 a);
    return;
  }
  a.resize(static_cast<std::size_t>(kRows * kK));
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t word = 0; word < 4; ++word) {
      const std::size_t row = lane / 4 + word % 2 * 8;
      const std::size_t k = lane % 4 * 2 + word / 2 * 8;
      std::memcpy(&a[row * kK + k], product.registers[lane][word], sizeof(std::uint32_t));
    }
  }
}

void WarpProducts::start(void* const* operands, unsigned warp) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (operands[lane] == nullptr) fail("wgmma without all lanes of the warp");
    if (!of_lane(operands, lane).is_like(of_lane(operands, 0))) fail("wgmma whose operands differ between lanes");
  }
  if (!fenced_) fail("wgmma behind no wgmma_fence()");
  Product product;
  product.group = groups_;
  product.what = of_lane(operands, 0);
  product.warp = warp;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::copy_n(of_lane(operands, lane).a, 4, product.registers[lane].begin());
  }
  read_a(product, product.a);
  read_operand(product.what.b_descriptor, 0, product.what.sums * 2, product.what.transposed_b, product.b);
  product.sums = sums_of(operands);
  ++product.sums->products;
  products_.push_back(std::move(product));
}

void WarpProducts::finish(const Product& product) {
  std::vector<std::uint16_t> now;
  read_a(product, now);
  const bool same_a = now == product.a;
  read_operand(product.what.b_descriptor, 0, product.what.sums * 2, product.what.transposed_b, now);
  if (!same_a || now != product.b) fail("an operand of wgmma changed before the product was waited for");

  Sums& sums = *product.sums;
  const auto columns = static_cast<std::size_t>(sums.columns);
  if (!product.what.adds) {
    std::fill(sums.values.begin(), sums.values.end(), 0.0F);
    std::fill(sums.integers.begin(), sums.integers.end(), 0);
  }
  if (product.what.bytes) {
    multiply_bytes(columns, product.a, product.b, sums.integers);
  } else {
    multiply_halves(kK, columns, product.a.data(), product.b.data(), sums.values.data());
  }

  if (--sums.products > 0) return;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    unsigned char* to = sums.lanes[lane];
    for (int i = 0; i < sums.columns / 2; ++i, to += kWord) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, to, sizeof bits);
      if (bits != kPoison) fail("sums of wgmma were written before they were waited for");
      std::memcpy(to, sums.at(place(lane, i, sums.columns), product.what.bytes), kWord);
    }
  }
}

void WarpProducts::wait(int pending) {
  fenced_ = false;
  while (!products_.empty() && products_.front().group < groups_ - pending) {
    finish(products_.front());
    products_.pop_front();
  }
  std::erase_if(sums_, [](const std::shared_ptr<Sums>& sums) { return sums->products == 0; });
}

void Warpgroup::start(unsigned warp, const WarpgroupProduct& product) {
  const std::size_t nth = counts_.at(warp)++ - by_all_;
  if (nth == begun_.size()) begun_.push_back(product);
  if (!product.is_like(begun_[nth])) fail("warps of a warpgroup are at different products");
  if (by_all_ == *std::min_element(counts_.begin(), counts_.end())) return;
  ++by_all_;
  begun_.pop_front();
}

}  // namespace mobicuda::emulator
