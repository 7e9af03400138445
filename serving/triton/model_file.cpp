#include "triton/model_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include <mobicuda/mobicuda.h>
#include <mobicuda/pictures.h>

namespace mobicuda::triton {
namespace {

constexpr std::uintmax_t kMostLabelBytes = std::uintmax_t{16} << 20;

// The extents of an image in the order in which they lie in memory.
std::vector<std::int64_t> dims_of(const TensorDesc& desc) {
  const auto dims = desc.shape.dims();
  if (desc.layout == Layout::NHWC && dims.size() == 4) return {dims[2], dims[3], dims[1]};
  return {dims.begin() + 1, dims.end()};
}

// The file of that name in the folder, where there is one. A link may lead to elsewhere in the folder alone.
std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder, const char* name) {
  std::filesystem::path file = folder / name;
  std::error_code failed;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, failed))) return {};
  const std::filesystem::path real = std::filesystem::canonical(file, failed);
  if (failed) throw Error(ErrorCode::io, file.string(), "cannot be opened: " + failed.message());
  const std::filesystem::path real_folder = std::filesystem::canonical(folder, failed);
  const auto [end, ignored] = std::mismatch(real_folder.begin(), real_folder.end(), real.begin(), real.end());
  if (failed || end != real_folder.end()) {
    throw Error(ErrorCode::invalid_argument, file.string(), "is a link to " + real.string() + ", outside of its folder",
                "put the file itself there");
  }
  if (!std::filesystem::is_regular_file(real, failed)) {
    throw Error(ErrorCode::invalid_argument, file.string(), "is no regular file");
  }
  return file;
}

std::filesystem::path find_model(const std::filesystem::path& folder) {
  const auto onnx = find_file(folder, "model.onnx");
  const auto plan = find_file(folder, "model.plan");
  if (onnx && plan) {
    throw Error(ErrorCode::invalid_argument, folder.string(), "holds both model.onnx and model.plan",
                "remove one of them");
  }
  if (onnx) return *onnx;
  if (plan) return *plan;
  throw Error(ErrorCode::invalid_argument, folder.string(), "holds no model",
              "put the model there as model.onnx (ONNX) or model.plan (plan file); other names are not looked for");
}

std::vector<std::string> read_labels(const std::filesystem::path& folder, std::int64_t classes) {
  const auto file = find_file(folder, "labels.txt");
  if (!file) return {};
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(*file, failed);
  if (failed || bytes > kMostLabelBytes) {
    throw Error(ErrorCode::invalid_argument, file->string(),
                "is larger than labels may be, " + std::to_string(kMostLabelBytes) + " bytes");
  }
  std::ifstream stream(*file);
  std::vector<std::string> labels;
  for (std::string line; std::getline(stream, line);) labels.push_back(line);
  if (static_cast<std::int64_t>(labels.size()) < classes) {
    throw Error(ErrorCode::invalid_argument, file->string(),
                "names " + std::to_string(labels.size()) + " classes, the model has " + std::to_string(classes),
                "one line a class");
  }
  return labels;
}

}  // namespace

ModelFile::ModelFile(const std::filesystem::path& version_folder, LogCallback log)
    : path_(find_model(version_folder)), log_(std::move(log)), is_plan_(path_.extension() == ".plan") {
  content_ = read();
  describe(*content_);
  labels_ = read_labels(version_folder, classes_);
}

ModelFile::Content ModelFile::read() const {
  Content content;
  if (is_plan_) {
    content.plan = plan_file::read(path_);
  } else {
    onnx_import::ImportOptions options;
    options.log = log_;
    content.graph = onnx_import::load(path_, options);
  }
  return content;
}

ModelFile::Content ModelFile::take() const {
  const std::scoped_lock lock(mutex_);
  return content_ ? *std::exchange(content_, {}) : read();
}

void ModelFile::describe(const Content& content) {
  const Graph graph = is_plan_ ? content.plan->graph : optimize(*content.graph);
  input_name_ = graph.value(graph.input()).name;
  output_ = {graph.value(graph.output()).name, "TYPE_FP32", dims_of(graph.output_desc())};
  classes_ = graph.output_desc().shape.elements();
  EngineOptions options;
  floats_ = input_desc(graph, options);
  options.picture_input = PictureInput{};
  try {
    pixels_ = input_desc(graph, options);
  } catch (const Error& error) {
    why_no_pixels_ = error.message();
  }
  if (is_plan_) {
    takes_bytes_ = content.plan->options.picture_input.has_value();
    most_images_ = content.plan->options.max_batch;
  }
}

Tensor ModelFile::input(InputKind kind) const {
  if (kind == InputKind::Floats) {
    if (takes_bytes_) {
      throw Error(ErrorCode::invalid_argument, path_.string(), "was compiled for bytes, the input is of TYPE_FP32",
                  "make the input TYPE_UINT8 or TYPE_STRING");
    }
    return {input_name_, "TYPE_FP32", dims_of(floats_)};
  }
  if (!pixels_) {
    throw Error(ErrorCode::unsupported, path_.string(), why_no_pixels_, "the input must be TYPE_FP32");
  }
  if (kind == InputKind::Encoded) return {input_name_, "TYPE_STRING", {1}};
  if (is_plan_ && !takes_bytes_) {
    throw Error(ErrorCode::invalid_argument, path_.string(), "was compiled for floats, the input is of TYPE_UINT8",
                "make the input TYPE_FP32 or TYPE_STRING");
  }
  return {input_name_, "TYPE_UINT8", dims_of(*pixels_)};
}

std::vector<Tensor> ModelFile::outputs(std::int64_t top) const {
  std::vector<Tensor> outputs{output_};
  if (top == 0) return outputs;
  if (top > classes_) {
    throw Error(ErrorCode::invalid_argument, path_.string() + ": parameter 'top'",
                "is " + std::to_string(top) + ", the model has " + std::to_string(classes_) + " classes");
  }
  outputs.push_back({"top_classes", "TYPE_INT32", {top}});
  outputs.push_back({"top_scores", "TYPE_FP32", {top}});
  if (!labels_.empty()) outputs.push_back({"top_labels", "TYPE_STRING", {top}});
  return outputs;
}

std::shared_ptr<const Engine> ModelFile::compile(const Processor& processor, const Settings& settings, InputKind kind,
                                                 std::int64_t max_batch) const {
  EngineOptions options;
  options.max_batch = max_batch;
  options.threads = settings.threads;
  options.device = processor.gpu.value_or(0);
  options.specialise = settings.specialise;
  options.max_memory_bytes = settings.max_memory_bytes;
  options.log = log_;
  const Content content = take();
  try {
    if (content.plan) return restore(*content.plan, std::move(options), processor, settings);
    options.precision = settings.precision.value_or(processor.gpu ? Precision::Fp16 : Precision::Fp32);
    if (kind != InputKind::Floats) {
      options.picture_input = pictures::picture_input(settings.preprocess.value_or(pictures::Normalization::Torch));
    }
    const auto backend = processor.gpu ? make_custom_backend() : make_cpu_backend();
    return backend->compile(*content.graph, options);
  } catch (const Error& error) {
    throw error.inside(path_.string());
  }
}

std::shared_ptr<const Engine> ModelFile::restore(const SavedEngine& plan, EngineOptions options,
                                                 const Processor& processor, const Settings& settings) const {
  options.precision = plan.options.precision;
  options.max_batch = plan.options.max_batch;
  options.picture_input = plan.options.picture_input;
  if (settings.precision && *settings.precision != options.precision) {
    throw Error(ErrorCode::invalid_argument, "parameter 'precision'",
                "is " + std::string(to_string(*settings.precision)) + ", the plan was compiled for " +
                    std::string(to_string(options.precision)));
  }
  const std::string_view wanted = processor.gpu ? "custom" : "cpu";
  if (plan.backend != wanted) {
    throw Error(ErrorCode::unsupported, "",
                "the plan was compiled by the engine \"" + plan.backend + "\", the instance is for \"" +
                    std::string(wanted) + '"',
                "instance_group of KIND_CPU takes plans of \"cpu\", KIND_GPU and KIND_MODEL those of \"custom\"");
  }
  return (processor.gpu ? make_custom_backend() : make_cpu_backend())->restore(plan, options);
}

}  // namespace mobicuda::triton
