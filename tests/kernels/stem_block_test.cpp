#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "kernels/race_case.h"
#include "kernels/stem_block_case.h"

namespace mobicuda::test {
namespace {

using namespace stem_block_case;

TEST_CASE("stem_block equals the oracle on MobileNetV2's", "[large]") {
  MOBICUDA_SKIP_BELOW(80);
  for (const Form& form : kForms) {
    for (const bool same : {true, false}) {
      const StemBlockParams p = block(form, same ? 1 : 2, 224, 224, same);
      check_against_oracle(p, random_data(p, 100));
    }
  }
}

TEST_CASE("stem_block equals the oracle on random shapes") {
  MOBICUDA_SKIP_BELOW(80);
  constexpr int kShapes = 60;
  Choice choose(7);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    const StemBlockParams p = random_shape(choose);
    CAPTURE(i);
    check_against_oracle(p, random_data(p, 1000 + 10 * i, i % 4 != 0));
  }
}

TEST_CASE("stem_block equals the oracle at every batch size, size and padding") {
  MOBICUDA_SKIP_BELOW(80);
  for (const Form& form : kForms) {
    for (int n = 1; n <= 8; ++n) {
      const StemBlockParams p = block(form, n, 19, 34, n % 2 == 0);
      check_against_oracle(p, random_data(p, 21));
    }
    for (const int size : {1, 2, 4, 6, 27, 28, 29, 57}) {
      for (const auto& [h, w] : {std::pair{size, 9}, std::pair{9, size}}) {
        const StemBlockParams p = block(form, 1, h, w, size % 2 == 0);
        check_against_oracle(p, random_data(p, 22));
      }
    }
    for (int top = 0; top <= 2; ++top) {
      for (int left = 0; left <= 2; ++left) {
        StemBlockParams p = block(form, 2, 16, 31, true);
        set_pads(p, top, left, 2 - top, left, top, 2 - left);
        check_against_oracle(p, random_data(p, 31));
      }
    }
  }
}

TEST_CASE("stem_block equals the oracle for the channels of every width", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  for (const Form& form : kForms) {
    // 0.35 and 0.5, 0.75, 1.3, 1.4; others that fill neither what a kernel has room for.
    for (const auto& [c_stem, c_out] : {std::pair{16, 8}, std::pair{24, 16}, std::pair{40, 24}, std::pair{48, 24},
                                        std::pair{33, 12}, std::pair{44, 20}, std::pair{8, 20}}) {
      if (form.elem == Elem::F32 && c_out % 8 != 0) continue;
      StemBlockParams p = block(form, 2, 33, 61, true);
      p.c_stem = c_stem;
      p.c_out = c_out;
      check_against_oracle(p, random_data(p, 41));
    }
  }
}

TEST_CASE("stem_block is exact on small whole numbers", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  constexpr int kShapes = 24;
  Choice choose(5);
  for (std::uint32_t i = 0; i < kShapes; ++i) {
    StemBlockParams p = random_shape(choose);
    scale_by_one(p);
    p.stem_clip = kRelu6;
    p.depthwise_clip = i % 2 == 0 ? kRelu6 : kNone;
    p.project_clip = {-2048.0F, 2048.0F};  // exact in half
    const Data data = integer_data(p, 50 + i);
    const Tensor oracle = oracle_of(p, data);
    const Device device(p, data);
    const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
    const int variants = for_each_variant(
        p, [&](StemBlockVariant variant) { REQUIRE(compare_exact(device.run(variant), oracle.value, shape)); });
    REQUIRE(variants > 0);
  }
}

TEST_CASE("stem_block gives a picture the same bits alone, in a batch of any size, by any variant",
          "[sanitize][slow]") {
  MOBICUDA_SKIP_BELOW(80);
  constexpr int kPictures = 40;
  for (const Form& form : kForms) {
    const StemBlockParams p = block(form, kPictures, 58, 61, true);
    const Data all = random_data(p, 45);
    StemBlockParams one = p;
    one.n = 1;
    const std::size_t size = input_count(one);
    // In exact float, groups of warps share some variants' sums: each has its own bits.
    std::map<StemBlockVariant, std::vector<float>> y;
    {
      const Device device(p, all);
      for_each_variant(p, [&](StemBlockVariant variant) {
        const auto whole = form.elem == Elem::F16 ? StemBlockVariant::Rows28 : variant;
        if (!y.contains(whole)) y[whole] = device.run(whole);
        y[variant] = y[whole];
      });
    }
    for (const std::size_t n : {0, 1, 13, kPictures - 1}) {
      Data alone = all;
      const auto from = all.x.begin() + static_cast<std::ptrdiff_t>(n * size);
      alone.x.assign(from, from + static_cast<std::ptrdiff_t>(size));
      CAPTURE(n);
      // 4 bytes off, floats cannot be loaded in pairs.
      for (const std::size_t misalign : {0, 1}) {
        const Device device(one, alone, misalign);
        for_each_variant(one, [&](StemBlockVariant variant) {
          const std::span<const float> in_batch(y[variant].data() + n * output_count(one), output_count(one));
          REQUIRE(compare_bits(device.run(variant), in_batch));
        });
      }
    }
  }
}

TEST_CASE("stem_block gives the same bits a thousand times", "[large]") {
  MOBICUDA_SKIP_BELOW(80);
  constexpr int kRuns = 500;  // of two launches
  for (const Form& form : kForms) {
    const StemBlockParams p = block(form, 3, 60, 60, true);
    const Data data = random_data(p, 46);
    const Device device(p, data);
    const bool half = form.elem == Elem::F16;
    for (const StemBlockVariant variant : {half ? StemBlockVariant::Rows2 : StemBlockVariant::Simt7x14,
                                           half ? StemBlockVariant::Rows14 : StemBlockVariant::Simt14x14}) {
      const std::vector<float> first = device.run(variant);
      for (int i = 1; i < kRuns; ++i) REQUIRE(compare_bits(device.run(variant), first));
    }
  }
}

TEST_CASE("stem_block passes NaN on, to the windows that see it only", "[sanitize]") {
  MOBICUDA_SKIP_BELOW(80);
  for (const Elem elem : kElems) {
    for (int behind = 0; behind <= 2; ++behind) {
      StemBlockParams p = block({StemInput::NchwFloat, elem}, 2, 42, 61, true);
      set_pads(p, 0, 1, behind, 1, 2, 1);
      Data data = random_data(p, 41);
      const std::size_t picture = count_of(1, p.h, p.w, kChannels);
      data.x[count_of(1, 1, p.h, p.w) + count_of(1, 13, p.w, 1) + 29] = kNan;
      data.x[picture + count_of(1, 2, p.h, p.w) + count_of(1, 1, 7, 1)] = kNan;
      data.x[2 * picture - 1] = kNan;
      const Tensor oracle = oracle_of(p, data);
      const Device device(p, data);
      const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
      for_each_variant(p, [&](StemBlockVariant variant) {
        REQUIRE(compare_elements(device.run(variant), oracle.value, oracle.bound, shape));
      });
    }
  }
}

TEST_CASE("stem_block addresses batches of more than 2^31 elements", "[large]") {
  MOBICUDA_SKIP_BELOW(80);
  constexpr int kPictures = 14267;  // 2^31 elements of input and more
  for (const Elem elem : kElems) {
    StemBlockParams p = block({StemInput::NhwcUint8, elem}, 1, 224, 224, true);
    const std::size_t x_bytes = input_count(p);
    const std::size_t y_bytes = output_count(p) * kernels::size_of(elem);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    if (free_bytes < (x_bytes + y_bytes) * kPictures * 3 / 2) MOBICUDA_SKIP("needs 20 GB of GPU memory");

    const Data data = random_data(p, 71);
    const auto variant = elem == Elem::F16 ? StemBlockVariant::Rows28 : StemBlockVariant::Simt14x14;
    const GuardedBuffer one(input_bytes(p, data));
    const GuardedBuffer weights = pack(variant, p, data);
    const GuardedBuffer x(x_bytes * kPictures);
    for (std::size_t n = 0; n < kPictures; ++n) {
      check_cuda(
          cudaMemcpy(static_cast<std::byte*>(x.data()) + n * x_bytes, one.data(), x_bytes, cudaMemcpyDeviceToDevice),
          "copy of a picture");
    }
    const GuardedBuffer expected(y_bytes);
    REQUIRE(kernels::stem_block(variant, p, one.data(), weights.data(), expected.data(), {}) == cudaSuccess);
    p.n = kPictures;
    const GuardedBuffer y(y_bytes * kPictures);
    REQUIRE(kernels::stem_block(variant, p, x.data(), weights.data(), y.data(), {}) == cudaSuccess);
    synchronize();
    for (const std::size_t n : {0, 1, 5349, 5350, 10699, 10700, 14265, 14266}) {
      CAPTURE(n);
      std::vector<std::byte> picture(y_bytes);
      check_cuda(cudaMemcpy(picture.data(), static_cast<const std::byte*>(y.data()) + n * y_bytes, y_bytes,
                            cudaMemcpyDeviceToHost),
                 "download of a picture");
      REQUIRE(picture == expected.download());
    }
    REQUIRE(y.check_guards());
  }
}

TEST_CASE("stem_block says what it supports, and refuses the rest") {
  MOBICUDA_SKIP_BELOW(80);
  for (const Elem elem : kElems) {
    const StemBlockParams good = block({StemInput::NchwFloat, elem}, 1, 32, 32, true);
    const bool half = elem == Elem::F16;
    const StemBlockVariant some = half ? StemBlockVariant::Rows2 : StemBlockVariant::Simt7x14;
    const auto supported = [](const StemBlockParams& p) { return for_each_variant(p, [](StemBlockVariant) {}); };
    const auto launched = [some](const StemBlockParams& p) {
      return kernels::stem_block(some, p, nullptr, nullptr, nullptr, {});
    };
    // Of an element: no variant runs the other one's.
    const auto is_half = [](StemBlockVariant variant) { return name(variant).starts_with("rows"); };
    const int all = static_cast<int>(std::ranges::count(kernels::stem_block_variants(), half, is_half));
    REQUIRE(supported(good) == all);
    StemBlockParams p = good;
    p.n = 0;
    REQUIRE(supported(p) == all);
    REQUIRE(launched(p) == cudaSuccess);
    for (int StemBlockParams::*member :
         {&StemBlockParams::h, &StemBlockParams::w, &StemBlockParams::c_stem, &StemBlockParams::c_out,
          &StemBlockParams::stem_h, &StemBlockParams::stem_w, &StemBlockParams::out_h, &StemBlockParams::out_w}) {
      p = good;
      p.*member = 0;
      REQUIRE(supported(p) == 0);
      REQUIRE(launched(p) == cudaErrorInvalidValue);
    }
    for (int StemBlockParams::*member : {&StemBlockParams::stem_pad_top, &StemBlockParams::depthwise_pad_left}) {
      p = good;
      p.*member = 3;
      REQUIRE(supported(p) == 0);
    }
    for (int StemBlockParams::*member : {&StemBlockParams::stem_w, &StemBlockParams::out_h}) {
      p = good;
      p.*member += 2;  // more than 2 pixels of padding behind the picture
      REQUIRE(supported(p) == 0);
    }
    p = good;
    p.c_stem = 49;
    REQUIRE(supported(p) == 0);
    p = good;
    p.c_out = 28;
    REQUIRE(supported(p) == 0);
    p = good;
    p.n = -1;
    REQUIRE(supported(p) == 0);
    p = good;
    p.c_out = half ? 14 : 12;
    REQUIRE(supported(p) == 0);
    p = good;
    p.elem = half ? Elem::F32 : Elem::F16;
    REQUIRE(launched(p) == cudaErrorInvalidValue);
    REQUIRE_FALSE(kernels::supports(some, good, kernels::traits_of(half ? 75 : 89, 132)));
  }
}

TEST_CASE("stem_block: every variant once with either input", "[race]") {
  MOBICUDA_SKIP_BELOW(80);
  race_case::EachOnce<StemBlockVariant> each(kernels::stem_block_variants());
  for (const Form& form : kForms) {
    // 59 rows of 31 outputs: two tiles of the largest in either direction.
    each.run(std::vector{block(form, 2, 117, 62, true)},
             [](const StemBlockParams& p, std::span<const StemBlockVariant> its) {
               const Data data = random_data(p, 91);
               const Tensor oracle = oracle_of(p, data);
               const Device device(p, data);
               const int shape[] = {p.n, p.out_h, p.out_w, p.c_out};
               for_each_supported(its, p, [&](StemBlockVariant variant) {
                 REQUIRE(compare_elements(device.run(variant), oracle.value, oracle.bound, shape));
               });
             });
  }
  each.check_all_ran();
}

}  // namespace
}  // namespace mobicuda::test
