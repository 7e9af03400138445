#include "bench_engine/model/result_file.h"

namespace mobicuda::bench {

std::filesystem::path result_file(std::filesystem::path path, const CaseResult& result) {
  std::string name = path.stem().string() + '.' + result.implementation + '-' +
                     std::string(to_string(result.precision)) + "-b" + std::to_string(result.batch);
  if (result.threads) name += "-t" + std::to_string(*result.threads);
  path.replace_filename(name + path.extension().string());
  return path;
}

}  // namespace mobicuda::bench
