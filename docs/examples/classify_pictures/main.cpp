// Names the best class of every picture of a folder, or of a tar archive:
//
//   classify_pictures MODEL.onnx FOLDER|ARCHIVE.tar [cpu]
//
// On the GPU, or with "cpu" on the CPU. The model wants pixels normalised with ImageNet's mean and standard deviation.
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>

#include <mobicuda/mobicuda.h>
#include <mobicuda/pictures.h>

namespace {

void classify(const std::string& model, const std::filesystem::path& where, bool on_gpu) {
  using namespace mobicuda;
  EngineOptions options;
  options.max_batch = 64;
  options.picture_input = pictures::picture_input(pictures::Normalization::Torch);
  const auto backend = on_gpu ? make_custom_backend() : make_cpu_backend();
  pictures::Classifier classifier(backend->compile(onnx_import::load(model), options));
  using Source = pictures::PictureSource;
  for (const auto& result : classifier.classify(is_directory(where) ? Source::folder(where) : Source::tar(where))) {
    std::cout << printable(result.name) << ": "
              << (result.ok() ? "class " + std::to_string(result.best[0].index) : result.failure) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3 || argc > 4 || (argc == 4 && argv[3] != std::string("cpu"))) {
      std::cerr << "usage: classify_pictures MODEL.onnx FOLDER|ARCHIVE.tar [cpu]\n";
      return 2;
    }
    classify(argv[1], argv[2], argc == 3);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "classify_pictures: " << error.what() << '\n';
    return 1;
  }
}
