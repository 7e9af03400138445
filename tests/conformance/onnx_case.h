#pragma once

// The test models that come with ONNX: a folder each, with model.onnx and tensors to feed and to expect.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mobicuda_onnx.pb.h>

namespace mobicuda::conformance {

/// Where a test model lies, and its name: "node/test_relu".
struct CaseFolder {
  std::string name;
  std::filesystem::path path;
};

/// Every folder with a model below `root`, sorted by name. Empty when there is no such folder.
std::vector<CaseFolder> list_cases(const std::filesystem::path& root);

/// One output of a test model as the importer wants it: parameters are initializers, the other outputs are gone.
struct OnnxCase {
  onnx_schema::ModelProto model;
  std::vector<std::string> fed;                      ///< inputs that became initializers
  std::optional<onnx_schema::TensorProto> input;     ///< what the first input is fed; nothing if it is no tensor
  std::optional<onnx_schema::TensorProto> expected;  ///< nothing if it is no tensor
};

/// The cases of a test model, one for each output. Test models feed their parameters at run time; all inputs but the
/// first are made initializers. Throws std::runtime_error when a file cannot be read.
std::vector<OnnxCase> read_cases(const CaseFolder& folder);

/// Why the case cannot be a network of one picture batch in and one out, whatever the operator; nothing if it can.
std::optional<std::string> out_of_scope(const OnnxCase& onnx_case);

/// Those of the fed inputs that are activations: FLOAT, and not the parameters of a layer.
std::vector<std::string> fed_activations(const OnnxCase& onnx_case);

/// Whether the input has an extent of 0, which the importer takes for an open one.
bool has_no_elements(const OnnxCase& onnx_case);

/// The tensor's elements. It is of one of is_number()'s types.
std::vector<float> numbers_of(const onnx_schema::TensorProto& tensor);
bool is_number(const onnx_schema::TensorProto& tensor);  ///< FLOAT, INT32, INT64 or BOOL
bool is_float(const std::optional<onnx_schema::TensorProto>& tensor);

}  // namespace mobicuda::conformance
