// mobicuda_triton_repository: a model repository of Triton Inference Server out of mobicuda_stream's configuration.
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include <mobicuda/error.h>

#include "repository/write_repository.h"

namespace {

using mobicuda::triton::InputKind;

constexpr int kExitRuntime = 1;
constexpr int kExitUsage = 2;

int run(const std::string& config_file, const std::string& folder, InputKind input) {
  const mobicuda::stream::Config config = mobicuda::stream::load_config(config_file);
  for (const std::string& remark : mobicuda::triton::write_repository(config, folder, input)) {
    std::cerr << "mobicuda_triton_repository: " << remark << '\n';
  }
  std::cout << "wrote " << config.models.size() << (config.models.size() == 1 ? " model" : " models") << " to "
            << mobicuda::printable(folder)
            << "\ntritonserver --model-repository=" << mobicuda::printable(std::filesystem::absolute(folder).string())
            << " --backend-directory=BACKENDS\n";
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app(
      "Writes a model repository of Triton Inference Server out of the configuration of mobicuda_stream: every "
      "model, its labels and its config.pbtxt. docs/serving.md is the manual.");
  app.footer(
      "Exit codes: 0 written, 1 a model cannot be read or a file not be written, 2 the command line or the "
      "configuration.");
  std::string config_file;
  std::string folder;
  InputKind input = InputKind::Encoded;
  app.add_option("CONFIG", config_file, "Configuration (docs/stream.schema.json)")->required();
  app.add_option("DIR", folder, "Repository: made where it is missing; models in it stay")->required();
  const std::map<std::string, InputKind> kinds{
      {"encoded", InputKind::Encoded}, {"uint8", InputKind::Pixels}, {"fp32", InputKind::Floats}};
  app.add_option(
         "--input", input,
         "What requests carry: encoded (JPEG, PNG, BMP or PNM), uint8 (height x width x 3) or fp32 (as the network "
         "reads); encoded where it is not given")
      ->transform(CLI::CheckedTransformer(kinds).description("{encoded,uint8,fp32}"));
  CLI11_PARSE(app, count, arguments);
  try {
    return run(config_file, folder, input);
  } catch (const mobicuda::Error& error) {
    std::cerr << "mobicuda_triton_repository: " << error.what() << '\n';
    return error.code() == mobicuda::ErrorCode::invalid_argument ? kExitUsage : kExitRuntime;
  } catch (const std::exception& error) {
    std::cerr << "mobicuda_triton_repository: " << mobicuda::printable(error.what()) << '\n';
    return kExitRuntime;
  }
}
