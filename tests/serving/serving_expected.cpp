// serving_expected MODEL floats|pixels|encoded FILE...: what the library computes, for tests of servers. Of `floats`
// and `pixels` (8 bits, HWC) each file holds raw images, of `encoded` one picture. Writes the outputs as raw float32.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <mobicuda/mobicuda.h>
#include <mobicuda/pictures.h>

namespace {

using namespace mobicuda;  // NOLINT(google-build-using-namespace)

std::vector<char> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> compute(const char* model, const std::string& kind, const std::vector<const char*>& files) {
  const Graph graph = onnx_import::load(model);
  EngineOptions options;
  if (kind != "floats") options.picture_input = pictures::picture_input(pictures::Normalization::Torch);
  const auto pixels = static_cast<std::size_t>(optimize(graph).input_desc().shape.elements());
  std::vector<char> input;
  for (const char* path : files) {
    const std::vector<char> bytes = read(path);
    if (kind != "encoded") {
      input.insert(input.end(), bytes.begin(), bytes.end());
      continue;
    }
    const TensorDesc desc = input_desc(optimize(graph), options);
    std::vector<std::uint8_t> prepared(pixels);
    pictures::preprocess(pictures::decode_picture({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}),
                         pictures::Preprocessing::for_input(desc, pictures::Normalization::Torch), prepared);
    input.insert(input.end(), prepared.begin(), prepared.end());
  }
  const std::size_t images = input.size() / pixels / (kind == "floats" ? sizeof(float) : 1);
  options.max_batch = static_cast<std::int64_t>(images);
  std::vector<float> output(images * static_cast<std::size_t>(graph.output_desc().shape.elements()));
  const auto session = make_cpu_backend()->compile(graph, options)->create_session();
  if (kind == "floats") {
    std::vector<float> floats(images * pixels);
    std::memcpy(floats.data(), input.data(), floats.size() * sizeof(float));
    session->run(floats, output);
  } else {
    session->run(std::vector<std::uint8_t>(input.begin(), input.end()), output);
  }
  return output;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    std::fputs("usage: serving_expected MODEL floats|pixels|encoded FILE...\n", stderr);
    return 2;
  }
  try {
    const std::vector<float> output = compute(arguments[1], arguments[2], {arguments + 3, arguments + count});
    std::fwrite(output.data(), sizeof(float), output.size(), stdout);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "serving_expected: %s\n", error.what());
    return 1;
  }
  return 0;
}
