// Instead of gpu_classifier.cpp where the library is built without CUDA: no engine of a GPU gets this far.
#include <mobicuda/error.h>

#include "pictures/classify/batch_classifier.h"

namespace mobicuda::pictures {
namespace {

[[noreturn]] void unavailable() {
  throw Error(ErrorCode::device_unavailable, "Classifier", "libmobicuda_pictures was built without CUDA");
}

}  // namespace

std::shared_ptr<const Nvjpeg> find_nvjpeg(const Engine& /*engine*/, const ClassifierOptions& /*options*/) {
  unavailable();
}

std::unique_ptr<BatchClassifier> make_gpu_classifier(std::shared_ptr<const Engine> /*engine*/,
                                                     const ClassifierOptions& /*options*/, const Preprocessing& /*how*/,
                                                     std::shared_ptr<const Nvjpeg> /*nvjpeg*/,
                                                     const BatchClassifier::Settings& /*settings*/) {
  unavailable();
}

}  // namespace mobicuda::pictures
