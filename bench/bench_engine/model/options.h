#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda/engine.h>
#include <mobicuda/pictures.h>
#include <mobicuda/types.h>

#include "bench_engine/model/pictures.h"

namespace mobicuda::bench {

/// Everything the command line says; the defaults are those of --help.
struct Options {
  std::filesystem::path model;
  std::filesystem::path load_engine;        ///< a plan file instead of a model
  std::filesystem::path save_engine;        ///< the result's implementation and batch go into the name where needed
  bool reload = false;                      ///< also time inferences that begin with the file
  std::vector<std::int64_t> picture_shape;  ///< from --shapes, without the batch
  std::string shapes_input;                 ///< the input that --shapes names; empty: none
  std::optional<std::int64_t> generated_elements;  ///< an import's limit; none: its default

  std::vector<std::string> implementations{"all"};  ///< "cpu", "custom:fp16", or "all" alone
  std::vector<Precision> precisions{Precision::Fp32};
  std::string reference;  ///< implementation that others are compared with; empty: the first
  std::vector<std::int64_t> batches{1};
  std::optional<std::int64_t> max_batch;  ///< of every engine; absent: each batch has an engine of its own
  std::vector<int> threads{0};            ///< of cpu; several are tried one after the other
  int device = 0;
  bool cuda_graph = true;
  bool programmatic_launch = true;
  std::map<std::string, std::string> kernel_variants;
  std::filesystem::path timing_cache;
  bool require_timing_cache = false;
  Specialise specialise = Specialise::Auto;
  std::optional<std::filesystem::path> code_cache;
  std::filesystem::path nvrtc_library;

  double warm_up_ms = 200;
  double duration_s = 3;
  int iterations = 10;
  double idle_ms = 0;
  bool single_calls = false;
  double sustained_s = 0;          ///< 0: no case runs alone for longer
  double sample_interval_ms = 50;  ///< of GPU utilisation, clocks and power; 0: nothing of it is recorded
  bool include_transfers = false;
  bool pictures = false;  ///< --input uint8
  HostTransfer host_transfer = HostTransfer::Auto;
  int streams = 3;
  std::filesystem::path load_inputs;
  std::string loaded_input;            ///< the input that --loadInputs names; empty: none
  bool time_images = false;            ///< the timed input is of --images
  std::filesystem::path golden;        ///< outputs to compare with
  std::filesystem::path save_outputs;  ///< the result's implementation and batch go into the name where it needs them
  std::uint64_t seed = 1;

  std::filesystem::path images;
  std::filesystem::path labels;
  std::optional<Normalization> normalization;
  std::vector<std::size_t> max_images;                  ///< one evaluation for each; empty: all pictures
  std::size_t decode_threads = 0;                       ///< 0: one for each core
  pictures::DecodeOn decode = pictures::DecodeOn::Cpu;  ///< of rates from files to logits
  bool per_class = false;                               ///< a table of classes
  std::filesystem::path reference_logits;
  std::filesystem::path reference_list;
  std::optional<double> top1_threshold;       ///< percent
  std::optional<double> agreement_threshold;  ///< percent
  std::optional<double> accuracy_threshold;   ///< largest difference of a logit
  std::optional<double> mean_threshold;       ///< this and the rest: of --golden
  std::optional<double> relative_l2_threshold;
  std::optional<double> cosine_threshold;
  std::optional<double> ulp_threshold;

  std::vector<std::string> compare;         ///< "cpu", "cudnn:fp16": layer by layer with these
  std::optional<double> compare_threshold;  ///< relative L2 of a tensor; absent: by precision

  bool dump_profile = false;
  bool dump_serialized_profile = false;
  bool dump_layer_info = false;
  bool dump_kernels = false;
  bool dump_output = false;
  std::filesystem::path export_times;
  std::filesystem::path export_profile;
  std::filesystem::path export_output;
  std::filesystem::path export_layer_info;
  std::filesystem::path export_trace;
  std::filesystem::path json;
  std::filesystem::path csv;

  bool list_implementations = false;
  bool list_operators = false;
  bool verbose = false;
  bool quiet = false;  ///< no progress on stderr

  std::vector<std::string> command_line;  ///< as given, for reports

  bool traced() const { return dump_kernels || !export_trace.empty(); }
};

/// "fp32", "fp32_split", "tf32", "fp16", "fp64". Throws UsageError otherwise.
Precision parse_precision(const std::string& text);

}  // namespace mobicuda::bench
