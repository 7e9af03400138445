// c_api_expected_files FOLDER: what the C++ interface computes, for tests of callers in other languages. Writes
// model.onnx, and as raw numbers input.f32 -> output.f32 and pictures.u8 -> pictures_output.f32, three images each. The
// model takes 1x3x32x48 and gives 1x10.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include <mobicuda/mobicuda.h>

#include "models/zoo/mobilenet_v2.h"
#include "models/zoo/onnx_writer.h"
#include "support/pictures.h"
#include "support/random.h"

namespace {

template <class T>
void write(const std::filesystem::path& path, const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

void write_all(const std::filesystem::path& folder) {
  using namespace mobicuda;  // NOLINT(google-build-using-namespace)
  constexpr std::int64_t kImages = 3;
  std::filesystem::create_directories(folder);
  zoo::write_model(zoo::build_mobilenet_v2(
                       {.width = 0.35, .height = 32, .picture_width = 48, .classes = 10, .blocks = 2, .seed = 3}),
                   folder / "model.onnx");
  const Graph graph = onnx_import::load(folder / "model.onnx");

  EngineOptions options;
  options.max_batch = kImages;
  options.threads = 1;
  const auto outputs = static_cast<std::size_t>(kImages * graph.output_desc().shape.elements());
  const auto inputs = static_cast<std::size_t>(kImages * graph.input_desc().shape.elements());
  const std::vector<float> input = test::random_uniform(7, inputs);
  std::vector<float> output(outputs);
  make_cpu_backend()->compile(graph, options)->create_session()->run(input, output);
  write(folder / "input.f32", input);
  write(folder / "output.f32", output);

  options.picture_input = test::exact_picture_input();
  const std::vector<std::uint8_t> pictures = test::random_pictures(graph, kImages);
  make_cpu_backend()->compile(graph, options)->create_session()->run(pictures, output);
  write(folder / "pictures.u8", pictures);
  write(folder / "pictures_output.f32", output);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: c_api_expected_files FOLDER\n", stderr);
    return 2;
  }
  try {
    write_all(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "c_api_expected_files: %s\n", error.what());
    return 1;
  }
  return 0;
}
