// mobicuda_write_model: writes an ONNX file of MobileNetV2, or of another classifier, with seeded weights.

#include <charconv>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>

#include <mobicuda/error.h>

#include "zoo/mobilenet_v2.h"
#include "zoo/networks.h"
#include "zoo/onnx_writer.h"

namespace {

using mobicuda::zoo::HeadStyle;
using mobicuda::zoo::MobileNetV2Options;
using mobicuda::zoo::NetworkInfo;
using mobicuda::zoo::NetworkOptions;
using mobicuda::zoo::PaddingStyle;

constexpr int kExitRuntime = 1;
constexpr int kExitUsage = 2;
constexpr const char* kMobileNetV2 = "mobilenet_v2";

/// "224" or "192x256" (height x width).
void parse_resolution(const std::string& text, MobileNetV2Options& options) {
  const auto number = [&](const std::string& part) {
    std::int64_t value = 0;
    if (part.empty() || part.size() > 5 || part.find_first_not_of("0123456789") != std::string::npos ||
        !CLI::detail::lexical_cast(part, value)) {
      throw CLI::ValidationError("--resolution", "must be HEIGHTxWIDTH or one number, got '" + text + "'");
    }
    return value;
  };
  const std::size_t cross = text.find('x');
  options.height = number(text.substr(0, cross));
  options.picture_width = cross == std::string::npos ? options.height : number(text.substr(cross + 1));
}

struct CommandLine {
  MobileNetV2Options options;
  std::string network = kMobileNetV2;
  std::string output;
  std::string resolution = "224";
  std::string padding = "torch";
  std::string head = "gemm";
  bool keep_batchnorm = false;
  bool list_networks = false;
};

std::string known_network(const std::string& name) {
  if (name == kMobileNetV2 || mobicuda::zoo::find_network(name) != nullptr) return "";
  return "no network is named '" + name + "'; --listNetworks names them";
}

// The conversion would take -1 for the largest number.
std::string whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc{} && end == text.data() + text.size()) return "";
  return "must be a whole number from 0 to 2^64 - 1, got '" + text + "'";
}

void define(CLI::App& app, CommandLine& line) {
  MobileNetV2Options& options = line.options;
  app.option_defaults()->always_capture_default();
  app.add_option("-o,--output", line.output, "File to write; required");
  app.add_option("--network", line.network, "What to write, see --listNetworks")->check(known_network);
  app.add_flag("--listNetworks", line.list_networks, "List the networks and exit");
  app.add_option("--resolution", line.resolution, "Input extent: one number or HEIGHTxWIDTH, up to 1024");
  app.add_option("--classes", options.classes, "Outputs")->check(CLI::Range(1, 100000));
  app.add_option("--opset", options.opset, "ONNX operator set")->check(CLI::Range(7, 23));
  app.add_option("--batch", options.batch, "Batch size in the file, 0 for dynamic")->check(CLI::Range(0, 65536));
  app.add_flag("--keepBatchNorm", line.keep_batchnorm, "Write BatchNormalization nodes instead of folding them");
  app.add_flag("--softmax", options.softmax, "End with Softmax");
  app.add_option("--seed", options.seed, "Seed of the weights")->check(whole_number);

  CLI::App& own = *app.add_option_group("Of mobilenet_v2 only");
  own.option_defaults()->always_capture_default();
  own.add_option("--width", options.width, "Width multiplier, usually 0.35 to 1.4")->check(CLI::Range(0.1, 4.0));
  own.add_option("--blocks", options.blocks, "Inverted residual blocks to keep")->check(CLI::Range(1, 17));
  own.add_option("--padding", line.padding, "torch: 1 on each side; tf: SAME, 0,0,1,1 at stride 2")
      ->check(CLI::IsMember({"torch", "tf"}));
  own.add_option("--head", line.head, "How pooling and classifier are written")
      ->check(CLI::IsMember({"gemm", "matmul", "reshape"}));
  own.add_option("--epsilon", options.batchnorm_epsilon, "Epsilon of BatchNormalization")->check(CLI::Range(0.0, 0.01));
  app.footer(
      "Networks other than mobilenet_v2 have resolution and class count of their own where none is given.\n"
      "Example: mobicuda_write_model --output small.onnx --width 0.35 --resolution 96 --classes 10\n"
      "         mobicuda_write_model --output resnet50.onnx --network resnet50");
}

void complete_options(const CLI::App& app, CommandLine& line) {
  if (line.output.empty() && !line.list_networks) throw CLI::RequiredError("--output");
  line.options.fold_batchnorm = !line.keep_batchnorm;
  parse_resolution(line.resolution, line.options);
  line.options.padding = line.padding == "tf" ? PaddingStyle::Tf : PaddingStyle::Torch;
  line.options.head = line.head == "matmul"    ? HeadStyle::MatMul
                      : line.head == "reshape" ? HeadStyle::Reshape
                                               : HeadStyle::Gemm;
  if (line.network == kMobileNetV2) return;
  for (const char* option : {"--width", "--blocks", "--padding", "--head", "--epsilon"}) {
    if (app.count(option) == 0) continue;
    throw CLI::ValidationError(option, "applies to mobilenet_v2 only, not to " + line.network);
  }
}

void list_networks() {
  std::printf("%-20s %-22s %-12s %7s\n", "name", "network", "input", "classes");
  std::printf("%-20s %-22s %-12s %7d\n", kMobileNetV2, "MobileNetV2", "3x224x224", 1000);
  for (const NetworkInfo& info : mobicuda::zoo::networks()) {
    const std::string extent = std::to_string(info.resolution);
    const std::string input = std::to_string(info.input_channels) + "x" + extent + "x" + extent;
    std::printf("%-20s %-22s %-12s %7lld\n", std::string(info.name).c_str(), std::string(info.title).c_str(),
                input.c_str(), static_cast<long long>(info.classes));
  }
}

void write_mobilenet_v2(const CommandLine& line) {
  const auto model = mobicuda::zoo::build_mobilenet_v2(line.options);
  mobicuda::zoo::write_model(model, line.output);
  std::printf("%s: MobileNetV2 %g, %lldx%lld, opset %lld, %zu bytes\n", line.output.c_str(), line.options.width,
              static_cast<long long>(line.options.height), static_cast<long long>(line.options.picture_width),
              static_cast<long long>(line.options.opset), model.ByteSizeLong());
}

void write_network(const CLI::App& app, const CommandLine& line) {
  const NetworkInfo& info = *mobicuda::zoo::find_network(line.network);
  const bool own_resolution = app.count("--resolution") == 0;
  NetworkOptions options;
  options.height = own_resolution ? info.resolution : line.options.height;
  options.picture_width = own_resolution ? info.resolution : line.options.picture_width;
  options.classes = app.count("--classes") == 0 ? info.classes : line.options.classes;
  options.opset = line.options.opset;
  options.batch = line.options.batch;
  options.fold_batchnorm = line.options.fold_batchnorm;
  options.softmax = line.options.softmax;
  options.seed = line.options.seed;
  const auto model = mobicuda::zoo::build_network(info.name, options);
  mobicuda::zoo::write_model(model, line.output);
  std::printf("%s: %s, %lldx%lld, opset %lld, %zu bytes\n", line.output.c_str(), std::string(info.title).c_str(),
              static_cast<long long>(options.height), static_cast<long long>(options.picture_width),
              static_cast<long long>(options.opset), model.ByteSizeLong());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Writes an ONNX file of MobileNetV2, or of another classifier, with seeded random weights."};
  CommandLine line;
  define(app, line);
  try {
    app.parse(argc, argv);
    complete_options(app, line);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  try {
    if (line.list_networks) {
      list_networks();
    } else if (line.network == kMobileNetV2) {
      write_mobilenet_v2(line);
    } else {
      write_network(app, line);
    }
    return 0;
  } catch (const mobicuda::Error& error) {
    std::fprintf(stderr, "mobicuda_write_model: %s\n", error.what());
    return error.code() == mobicuda::ErrorCode::invalid_argument ? kExitUsage : kExitRuntime;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mobicuda_write_model: %s\n", error.what());
    return kExitRuntime;
  }
}
