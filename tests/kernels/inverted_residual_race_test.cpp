// Every variant of inverted_residual, for tools under which a launch takes long: race_case.h.
#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/inverted_residual_case.h"
#include "kernels/race_case.h"

namespace mobicuda::test {
namespace {

using namespace inverted_residual_case;
using Each = race_case::EachOnce<InvertedResidualVariant>;

/// Channels of MobileNetV2 and MobileNetV3, which variants know at compile time.
std::vector<InvertedResidualLayer> layers() {
  std::vector<InvertedResidualLayer> all(std::begin(kMobileNetV2Blocks), std::end(kMobileNetV2Blocks));
  all.insert(all.end(), std::begin(kMobileNetV3Blocks), std::end(kMobileNetV3Blocks));
  return all;
}

/// A block of a variant's tile that is cut into two tiles in each direction, of which the second ones are mostly
/// outside, or that is a whole picture for the variants that take nothing else.
std::vector<InvertedResidualParams> cut_blocks(InvertedResidualVariant variant, int n) {
  const kernels::InvertedResidualTile tile = inverted_residual_tile(variant);
  std::vector<InvertedResidualLayer> channels;
  constexpr int kChunks = 4;                 // of hidden channels, for variants of any channels
  for (const int c_in : {tile.c_out, 24}) {  // the first one with x added, where the stride is 1
    if (tile.expand) channels.push_back({"any", 0, c_in, kChunks * tile.hidden, tile.c_out, tile.stride});
  }
  for (const InvertedResidualLayer& layer : layers()) channels.push_back(layer);
  std::vector<InvertedResidualParams> shapes;
  for (const InvertedResidualLayer& layer : channels) {
    const auto add = [&](int h, int w) {
      InvertedResidualParams p = block(n, h, w, layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
      p.elem = name(variant).starts_with("simt") || is_split(variant) ? Elem::F32 : Elem::F16;
      shapes.push_back(with_split(p, is_split(variant)));
    };
    add(layer.stride * tile.rows + 1, layer.stride * tile.columns + 1);
    constexpr int kLargest = 56;  // of pictures that variants take whole
    if (layer.size != 0 && layer.size <= kLargest) add(layer.size, layer.size);
  }
  return shapes;
}

void check(const InvertedResidualParams& p, std::span<const InvertedResidualVariant> variants) {
  check_against_oracle(p, random_data(p, 81), variants);
}

void check_all(const std::vector<InvertedResidualVariant>& variants, int n) {
  Each each(variants);
  for (const InvertedResidualVariant variant : variants) each.run_one(variant, cut_blocks(variant, n), check);
  each.check_all_ran();
}

std::vector<InvertedResidualVariant> family(std::initializer_list<std::string_view> prefixes, bool with = true) {
  return race_case::named(kernels::inverted_residual_variants(), with, prefixes);
}

TEST_CASE("inverted_residual: every variant in float once", "[race]") { check_all(family({"simt"}), 2); }

TEST_CASE("inverted_residual: every variant of split products once", "[race]") { check_all(family({"split"}), 2); }

TEST_CASE("inverted_residual: every variant in small tiles once", "[race]") { check_all(family({"small"}), 2); }

TEST_CASE("inverted_residual: every variant in strips once", "[race]") { check_all(family({"strip"}), 2); }

TEST_CASE("inverted_residual: every variant of clusters and of 14x14, 28x28 and 56x56 pictures once", "[race]") {
  std::vector<InvertedResidualVariant> variants = family({"cluster"});
  for (const InvertedResidualVariant variant : family({"image1_", "image2_", "image4_", "image8_"}))
    variants.push_back(variant);
  check_all(variants, 2);
}

TEST_CASE("inverted_residual: every variant of 7x7 pictures once", "[race]") { check_all(family({"image7"}), 3); }

TEST_CASE("inverted_residual: every other variant once", "[race]") {
  check_all(family({"simt", "split", "small", "strip", "cluster", "image1_", "image2_", "image4_", "image8_", "image7"},
                   false),
            2);
}

/// A ring passes from one tile to the next one of its block: one variant for each number of channels.
TEST_CASE("inverted_residual: blocks walk over many tiles in light runs", "[race]") {
  constexpr int kTiles = 132 * 4 + 1;  // more than a GPU of sm_90 runs blocks at once
  std::set<InvertedResidualVariant> walked;
  const auto walk = [&](const std::vector<InvertedResidualVariant>& variants, int n) {
    for (const InvertedResidualLayer& layer : layers()) {
      const InvertedResidualParams p = block(n, 3, 2, layer.c_in, layer.c_hidden, layer.c_out, layer.stride);
      const auto fits = [&](InvertedResidualVariant variant) { return supports(variant, p, gpu_traits()); };
      const auto variant = std::find_if(variants.begin(), variants.end(), fits);
      if (variant != variants.end() && walked.insert(*variant).second) check(p, {&*variant, 1});
    }
  };
  constexpr int kWarps = 4;  // of a block of strips, each with a tile of its own
  walk(family({"small"}), kTiles);
  walk(family({"strip"}), kWarps * kTiles);
  walk(family({"plain", "s1", "s2"}), kTiles);
}

}  // namespace
}  // namespace mobicuda::test
