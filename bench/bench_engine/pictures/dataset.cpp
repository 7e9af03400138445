#include "bench_engine/pictures/dataset.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <sstream>
#include <utility>

#include <mobicuda/error.h>
#include <mobicuda/picture_source.h>

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "raw float files are read as they lie");

std::ifstream open(const fs::path& path, std::ios::openmode mode = std::ios::in) {
  std::ifstream stream(path, mode);
  if (!stream || fs::is_directory(path)) throw UsageError("cannot open " + path.string());
  return stream;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::pair<std::string, std::string> first_word(const std::string& line) {
  const auto end = line.find_first_of(" \t");
  if (end == std::string::npos) return {line, line};
  return {line.substr(0, end), trimmed(line.substr(end))};
}

}  // namespace

Labels parse_labels(std::istream& stream, const std::string& source) {
  Labels labels;
  std::string line;
  std::size_t empty_line = 0;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    line = trimmed(line);
    if (line.empty()) {
      if (empty_line == 0) empty_line = number;
      continue;
    }
    if (empty_line != 0) throw UsageError(source + ":" + std::to_string(empty_line) + ": empty line between classes");
    auto [synset, name] = first_word(line);
    if (!labels.indices.emplace(synset, labels.synsets.size()).second) {
      throw UsageError(source + ":" + std::to_string(number) + ": '" + synset + "' is named twice");
    }
    labels.synsets.push_back(std::move(synset));
    labels.names.push_back(std::move(name));
  }
  if (labels.synsets.empty()) throw UsageError(source + ": no class in it");
  return labels;
}

Labels load_labels(const fs::path& path) {
  std::ifstream stream = open(path);
  return parse_labels(stream, path.string());
}

std::vector<Sample> list_samples(const fs::path& folder, const Labels& labels) {
  std::vector<pictures::PictureFile> files;
  try {
    files = pictures::list_folder(folder);
  } catch (const Error& error) {
    throw UsageError("--images: " + error.where() + " " + error.message());
  }
  if (files.empty()) throw UsageError("--images: no file in " + folder.string());
  std::vector<Sample> samples;
  std::size_t row = 0;
  for (pictures::PictureFile& file : files) {
    Sample sample;
    const auto label = labels.indices.find(fs::path(file.name).parent_path().filename().string());
    if (label != labels.indices.end()) sample.label = label->second;
    if (file.unreadable.empty()) sample.row = row++;
    sample.path = std::move(file.name);
    sample.unreadable = std::move(file.unreadable);
    samples.push_back(std::move(sample));
  }
  return samples;
}

void assign_rows(std::vector<Sample>& samples, std::istream& list, const std::string& source) {
  std::map<std::string, std::size_t> rows;
  std::string line;
  while (std::getline(list, line)) {
    line = trimmed(line);
    if (!line.empty()) rows.emplace(first_word(line).first, rows.size());
  }
  for (Sample& sample : samples) {
    if (!sample.unreadable.empty()) continue;
    const auto row = rows.find(sample.path);
    if (row == rows.end()) throw UsageError(source + ": does not list " + sample.path);
    sample.row = row->second;
  }
}

std::vector<float> load_rows(const fs::path& path, std::size_t classes) {
  std::ifstream stream = open(path, std::ios::binary);
  const auto bytes = static_cast<std::size_t>(fs::file_size(path));
  if (bytes == 0 || bytes % (classes * sizeof(float)) != 0) {
    throw UsageError(path.string() + ": " + std::to_string(bytes) + " bytes are not rows of " +
                     std::to_string(classes) + " float32");
  }
  std::vector<float> rows(bytes / sizeof(float));
  stream.read(reinterpret_cast<char*>(rows.data()), static_cast<std::streamsize>(bytes));
  if (!stream) throw UsageError("cannot read " + path.string());
  return rows;
}

}  // namespace mobicuda::bench
