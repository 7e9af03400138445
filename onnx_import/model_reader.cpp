#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <mobicuda/error.h>
#include <mobicuda/onnx_import.h>

#include "external_data.h"
#include "file_descriptor.h"
#include "graph/memory_errors.h"
#include "graph_input.h"
#include "initializer.h"
#include "model_bytes.h"
#include "node_importer.h"
#include "op_table.h"
#include "schema.h"
#include "text.h"

namespace mobicuda::onnx_import {
namespace {

using schema::GraphProto;
using schema::ModelProto;
using schema::NodeProto;

constexpr std::int64_t kOldestIrVersion = 3;

Error over_limit(const std::string& where, const std::string& what, std::int64_t count, std::int64_t limit) {
  return {ErrorCode::unsupported, where,
          what + " " + std::to_string(count) + ", the limit is " + std::to_string(limit)};
}

bool is_default_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// What files are that are taken for ONNX models, by their first bytes, and what to do about them.
std::string remedy_for_other_format(std::span<const std::byte> bytes) {
  struct Format {
    std::size_t offset;
    std::string_view magic;
    std::string_view remedy;
  };
  constexpr Format kFormats[] = {
      {0, "version https://git-lfs", "this is a Git LFS pointer: run git lfs pull"},
      {0, "PK\x03\x04", "this is a ZIP archive, such as PyTorch's .pt files: export the model with torch.onnx.export"},
      {0, "\x80\x02", "this is a Python pickle, such as PyTorch's .pth files: export the model with torch.onnx.export"},
      {4, "TFL3", "this is a TensorFlow Lite model: convert it with tf2onnx (--tflite)"},
      {0, "\x89HDF", "this is an HDF5 file, such as Keras writes: convert the model with tf2onnx"},
      {0, "\x1f\x8b", "this is a gzip archive: decompress it"},
      {0, "<!DOCTYPE", "this is a web page: download the file itself"},
      {0, "<!doctype", "this is a web page: download the file itself"},
      {0, "<html", "this is a web page: download the file itself"}};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Format& format : kFormats) {
    if (text.size() >= format.offset && text.substr(format.offset).starts_with(format.magic)) {
      return std::string(format.remedy);
    }
  }
  return "is the file complete?";
}

ModelProto parse(std::span<const std::byte> bytes, const ImportLimits& limits) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  constexpr std::int64_t kProtobufCeiling = 2147483647;
  if (size > limits.file_bytes || size > kProtobufCeiling) {
    throw over_limit("", "the file has bytes:", size, std::min(limits.file_bytes, kProtobufCeiling));
  }
  if (bytes.empty()) throw invalid("", "the file is empty");
  check_parsed_bytes(bytes);
  ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(size))) {
    throw invalid("", "not an ONNX model: the " + std::to_string(size) + " bytes do not parse as a protobuf message",
                  remedy_for_other_format(bytes));
  }
  return model;
}

std::string place(int index, const NodeProto& node) {
  Origin origin;
  origin.nodes.push_back({index, printable(node.name()), printable(node.op_type())});
  return origin.describe();
}

Error domain_error(int index, const NodeProto& node, const ModelProto& model) {
  for (const auto& function : model.functions()) {
    if (function.name() == node.op_type() && function.domain() == node.domain()) {
      return {ErrorCode::unsupported, place(index, node),
              "is a function of the model, in domain " + in_quotes(node.domain()) + ", which is not supported",
              "inline functions when exporting"};
    }
  }
  const bool of_runtime = node.domain().starts_with(kMicrosoftDomain);
  std::string hint;
  if (of_runtime) {
    hint = remedy_for(node.op_type());
  }
  if (of_runtime && hint.empty()) {
    hint =
        "ONNX Runtime wrote the operator when it optimised the model: use the original one, or have it saved "
        "with ORT_ENABLE_BASIC";
  }
  return {ErrorCode::unsupported, place(index, node),
          (of_runtime ? "the operator of the domain " : "operators of the domain ") + in_quotes(node.domain()) +
              (of_runtime ? " is not supported" : " are not supported"),
          hint};
}

// Whether the node's domain is one of which operators are read; of other domains than ONNX's, whether that one is.
bool is_importable(const ModelProto& model, const NodeProto& node) {
  if (is_default_domain(node.domain())) return true;
  const auto& functions = model.functions();
  return is_read(node.domain(), node.op_type()) && std::none_of(functions.begin(), functions.end(), [&](const auto& f) {
           return f.name() == node.op_type() && f.domain() == node.domain();
         });
}

// Models all of whose operators are of other domains are sound.
Error no_default_domain(const ModelProto& model) {
  const auto& nodes = model.graph().node();
  const auto standard = [](const NodeProto& node) { return is_default_domain(node.domain()); };
  if (model.opset_import().empty() || nodes.empty() || std::any_of(nodes.begin(), nodes.end(), standard)) {
    return invalid("opset_import", "the default domain is missing");
  }
  return domain_error(0, nodes[0], model);
}

// The version of a domain that the model imports.
std::optional<std::int64_t> read_version(const ModelProto& model, bool (*is_domain)(const std::string&),
                                         const std::string& name) {
  std::optional<std::int64_t> version;
  for (const auto& import : model.opset_import()) {
    if (!is_domain(import.domain())) continue;
    if (version) throw invalid("opset_import", "the " + name + " is imported twice");
    version = import.version();
  }
  return version;
}

bool is_microsoft_domain(const std::string& domain) { return domain == kMicrosoftDomain; }

std::int64_t read_opset(const ModelProto& model) {
  const std::optional<std::int64_t> found = read_version(model, is_default_domain, "default domain");
  if (!found) throw no_default_domain(model);
  const std::int64_t opset = *found;
  if (opset < 1) throw invalid("opset_import", "the version must be > 0, got " + std::to_string(opset));
  if (opset < kOldestOpset || opset > kNewestOpset) {
    throw Error(ErrorCode::unsupported, "opset_import",
                "opsets " + std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset) +
                    " are supported, got " + std::to_string(opset),
                "export the model with an opset in that range");
  }
  return opset;
}

void check_header(const ModelProto& model, const ImportState& state) {
  const std::int64_t ir_version = model.ir_version();
  if (ir_version < 1)
    throw invalid("ir_version", "must be > 0, got " + std::to_string(ir_version), "is this an ONNX model?");
  if (ir_version < kOldestIrVersion) {
    throw Error(ErrorCode::unsupported, "ir_version",
                "must be >= " + std::to_string(kOldestIrVersion) + ", got " + std::to_string(ir_version));
  }
  if (ir_version > kNewestIrVersion) {
    state.log(LogLevel::Warning, "ir_version " + std::to_string(ir_version) + " is newer than the newest known, " +
                                     std::to_string(kNewestIrVersion));
  }
  if (!model.has_graph()) throw invalid("graph", "is missing");
}

void check_name(const std::string& name, const std::string& where, const ImportLimits& limits) {
  if (static_cast<std::int64_t>(name.size()) > limits.name_bytes) {
    throw over_limit(where, "the name " + in_quotes(name) + " has bytes:", static_cast<std::int64_t>(name.size()),
                     limits.name_bytes);
  }
}

// Counts, and lengths of names.
void check_limits(const GraphProto& graph, const ImportLimits& limits) {
  if (graph.node_size() > limits.nodes) throw over_limit("graph", "number of nodes:", graph.node_size(), limits.nodes);
  if (graph.initializer_size() > limits.initializers) {
    throw over_limit("graph", "number of initializers:", graph.initializer_size(), limits.initializers);
  }
  check_name(graph.name(), "graph", limits);
  for (const auto& tensor : graph.initializer()) check_name(tensor.name(), "initializer", limits);
  for (const auto& info : graph.input()) check_name(info.name(), "input", limits);
  for (const auto& info : graph.output()) check_name(info.name(), "output", limits);
  for (int i = 0; i < graph.node_size(); ++i) {
    const NodeProto& node = graph.node(i);
    const std::string where = "node #" + std::to_string(i);
    check_name(node.name(), where, limits);
    check_name(node.op_type(), where, limits);
    for (const std::string& name : node.input()) check_name(name, where, limits);
    for (const std::string& name : node.output()) check_name(name, where, limits);
    for (const auto& attribute : node.attribute()) check_name(attribute.name(), where, limits);
  }
}

void read_initializers(const GraphProto& graph, ImportState& state) {
  if (graph.sparse_initializer_size() > 0) {
    throw Error(ErrorCode::unsupported, "sparse_initializer " + in_quotes(graph.sparse_initializer(0).values().name()),
                "sparse tensors are not supported");
  }
  std::int64_t total = 0;
  for (const auto& tensor : graph.initializer()) {
    const std::string where = "initializer " + in_quotes(tensor.name());
    if (tensor.name().empty()) throw invalid(where, "has no name");
    if (!state.values.emplace(tensor.name(), &tensor).second) throw invalid(where, "exists twice");
    try {
      const std::int64_t bytes = validate_tensor(tensor, state.options.limits, state.external);
      total += bytes;
      if (tensor.data_location() == schema::TensorProto::EXTERNAL) state.read_bytes += bytes;
    } catch (const Error& error) {
      throw error.inside(where);
    }
    if (total > state.options.limits.weight_bytes) {
      throw over_limit(where, "bytes of all weights up to here:", total, state.options.limits.weight_bytes);
    }
  }
}

const std::string& read_output_name(const GraphProto& graph) {
  if (graph.output_size() == 0) throw invalid("graph", "has no output");
  if (graph.output_size() > 1) {
    throw Error(ErrorCode::unsupported, "graph",
                "must have one output, has " + std::to_string(graph.output_size()) + ": " +
                    in_quotes(graph.output(0).name()) + ", " + in_quotes(graph.output(1).name()),
                "export the logits (or probabilities) only");
  }
  if (graph.output(0).name().empty()) throw invalid("output", "has no name");
  return graph.output(0).name();
}

using Producers = std::unordered_map<std::string_view, int>;

// Which node makes which value; refuses a value with two makers.
Producers find_producers(const GraphProto& graph, const ImportState& state) {
  Producers producers;
  for (int i = 0; i < graph.node_size(); ++i) {
    bool any = false;
    for (const std::string& name : graph.node(i).output()) {
      if (name.empty()) continue;
      any = true;
      if (state.values.contains(name) || !producers.emplace(name, i).second) {
        throw invalid(place(i, graph.node(i)), "the output " + in_quotes(name) + " exists already");
      }
    }
    if (!any) throw invalid(place(i, graph.node(i)), "has no output");
  }
  return producers;
}

// The nodes that the output needs. Also counts who reads each value.
std::vector<bool> find_needed(const GraphProto& graph, const std::string& output, ImportState& state) {
  std::vector<bool> needed(static_cast<std::size_t>(graph.node_size()), false);
  ++state.uses[output];
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const NodeProto& node = graph.node(i);
    bool used = false;
    for (const std::string& name : node.output()) used = used || (!name.empty() && state.uses.contains(name));
    if (!used) continue;
    needed[static_cast<std::size_t>(i)] = true;
    for (const std::string& name : node.input()) {
      if (!name.empty()) ++state.uses[name];
    }
  }
  return needed;
}

void check_inputs_exist(int index, const NodeProto& node, const Producers& producers, const ImportState& state) {
  for (int i = 0; i < node.input_size(); ++i) {
    const std::string& name = node.input(i);
    if (name.empty() || state.values.contains(name)) continue;
    const std::string where = place(index, node) + ", input #" + std::to_string(i) + " " + in_quotes(name);
    const auto producer = producers.find(name);
    if (producer == producers.end()) throw invalid(where, "is made by no node, initializer or graph input");
    throw invalid(where, "is made by node #" + std::to_string(producer->second) +
                             ", which does not come before: nodes must be in topological order, without cycles");
  }
}

void warn_of_other_shape(const schema::ValueInfoProto& declared, const Shape& shape, const ImportState& state) {
  if (!declared.type().tensor_type().has_shape()) return;
  const auto& dims = declared.type().tensor_type().shape().dim();
  bool same = dims.size() == static_cast<int>(shape.rank());
  for (int axis = 1; same && axis < dims.size(); ++axis) {
    same = dims[axis].dim_value() <= 0 || dims[axis].dim_value() == shape[static_cast<std::size_t>(axis)];
  }
  if (!same) {
    state.log(LogLevel::Warning, "output " + in_quotes(declared.name()) + " has shape " + to_string(shape) +
                                     " a picture, which is not what the file declares");
  }
}

Graph import_graph(const ModelProto& model, std::int64_t file_bytes, const ImportOptions& options,
                   const ExternalData& external) {
  const GraphProto& graph = model.graph();
  ImportState state(options, external, printable(graph.name()), file_bytes);
  check_header(model, state);
  state.opset = read_opset(model);
  state.microsoft_opset =
      read_version(model, is_microsoft_domain, "domain '" + std::string(kMicrosoftDomain) + "'").value_or(0);
  check_limits(graph, options.limits);
  read_initializers(graph, state);
  read_input(graph, state);
  const std::string& output = read_output_name(graph);
  const Producers producers = find_producers(graph, state);
  if (!producers.contains(output)) {
    throw invalid("output " + in_quotes(output), "is made by no node");
  }
  const std::vector<bool> needed = find_needed(graph, output, state);
  state.readers_left = state.uses;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    check_inputs_exist(i, graph.node(i), producers, state);
    if (!is_importable(model, graph.node(i))) throw domain_error(i, graph.node(i), model);
    NodeImporter node(state, graph.node(i), i);
    import_node(node);
    for (const std::string& name : graph.node(i).input()) state.read_once(name);
  }
  const NamedValue& made = state.values.at(output);
  if (std::holds_alternative<ConstantPtr>(made)) {
    throw Error(ErrorCode::unsupported, "output " + in_quotes(output), "is a constant: the network computes nothing");
  }
  const auto* result = std::get_if<ValueId>(&made);
  if (result == nullptr) {
    const int producer = producers.at(output);
    throw Error(ErrorCode::unsupported, place(producer, graph.node(producer)),
                "makes the network's output " + in_quotes(output) + ", which only certain operators may read");
  }
  warn_of_other_shape(graph.output(0), state.builder.value(*result).desc.shape, state);
  return std::move(state.builder).build(*result);
}

std::string name_of(const std::filesystem::path& path) { return path.string(); }
std::string name_of(const std::string& name) { return printable(name); }

// Adds the model's name to errors, and turns what else may be thrown into them.
template <class Source, class Function>
Graph with_name(const Source& source, Function function) {
  return with_memory_errors("", [&] {  // of the name itself
    const std::string name = name_of(source);
    try {
      return function();
    } catch (const Error& error) {
      throw error.inside(name);
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::out_of_memory, name, "no memory for the model");
    } catch (const std::exception& error) {
      throw Error(ErrorCode::internal, name, error.what());
    }
  });
}

}  // namespace

Graph load(const std::filesystem::path& path, const ImportOptions& options) {
  return with_name(path, [&] {
    const FileDescriptor file = open_file(path);
    const std::int64_t size = file_size(file);
    if (size > options.limits.file_bytes) throw over_limit("", "the file has bytes:", size, options.limits.file_bytes);
    std::vector<std::byte> bytes(static_cast<std::size_t>(size));
    read_exactly(file, 0, bytes);
    const ModelProto model = parse(bytes, options.limits);
    std::vector<std::byte>().swap(bytes);
    return import_graph(model, size, options, ExternalData(path.parent_path()));
  });
}

Graph load_from_memory(std::span<const std::byte> bytes, const std::string& name, const ImportOptions& options,
                       const std::optional<std::filesystem::path>& external_data_folder) {
  return with_name(name, [&] {
    const ModelProto model = parse(bytes, options.limits);
    return import_graph(model, static_cast<std::int64_t>(bytes.size()), options,
                        external_data_folder ? ExternalData(*external_data_folder) : ExternalData());
  });
}

std::vector<OperatorSupport> supported_operators() {
  std::vector<OperatorSupport> result;
  for (const OperatorForm& form : operator_forms()) {
    const std::string name = (form.domain.empty() ? "" : std::string(form.domain) + ".") + std::string(form.name);
    if (!result.empty() && result.back().name == name) {
      result.back().last_opset = form.last_opset;
    } else {
      result.push_back({name, form.first_opset, form.last_opset});
    }
  }
  return result;
}

}  // namespace mobicuda::onnx_import
