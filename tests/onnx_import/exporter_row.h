#pragma once

// One exporter's way to write the network, and what must hold of it.

#include <functional>
#include <string>
#include <vector>

#include <mobicuda/graph.h>
#include <mobicuda/onnx_import.h>

#include "model_rewrites.h"
#include "models/zoo/mobilenet_v2.h"
#include "support/tolerance.h"

namespace mobicuda::test {

/// Equal networks in double precision: only the rounding of the logits to float can differ.
inline constexpr double kSameNetwork = 2 * kUnitF32;
/// Networks of 53 layers whose weights differ by the rounding of a folded BatchNormalization, once in each: to first
/// order every layer adds a relative error of at most 2u.
inline constexpr double kRoundedFolding = 53 * 2 * kUnitF32;

using Rewrite = std::function<void(Model&)>;

/// The sizes each row is tested at: few blocks, where a mistake is easy to find, and all of them.
zoo::MobileNetV2Options small_network();
zoo::MobileNetV2Options full_network();

Graph import(const Model& model, const onnx_import::ImportOptions& options = {});

/// Logits of two fixed pictures in double precision, rounded to float once. The pictures do not depend on whether
/// the graph takes (N, C, H, W) or (N, H, W, C).
std::vector<float> logits(const Graph& graph);

/// Equal logits.
Comparison compare_logits(const Graph& variant, const Graph& plain, double tolerance = kSameNetwork);

/// Equal logits, the same output shape, and as many of each operation after optimisation. Checks by Catch2. What the
/// plain form gives is computed once in a process.
void require_same(const Graph& variant, const Model& plain, double tolerance = kSameNetwork);

/// A variant: `rewrites` of the network written with the other members, to be compared with
/// `reference_rewrites` of the folded network at opset 17.
struct Row {
  std::int64_t opset;
  zoo::PaddingStyle padding;
  std::vector<Rewrite> rewrites;
  bool batchnorm = false;
  float epsilon = 1e-5F;
  zoo::HeadStyle head = zoo::HeadStyle::Gemm;
  std::vector<Rewrite> reference_rewrites = {};
  std::int64_t batch = 0;
};

/// require_same() at both sizes.
void check_row(const Row& row);

/// The same for the plain network at `opset` after `rewrites`, with payloads of at least `least_bytes` in a file
/// beside the model.
void check_external_data(std::int64_t opset, const std::vector<Rewrite>& rewrites, std::size_t least_bytes);

/// The call must throw Error with that code and these words.
void require_refused(const std::function<void()>& call, ErrorCode code, const std::vector<std::string>& words);

}  // namespace mobicuda::test
