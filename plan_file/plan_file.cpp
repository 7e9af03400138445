#include <mobicuda/plan_file.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <system_error>

#include "frame.h"
#include "graph/memory_errors.h"
#include "graph/whole_file.h"
#include "structure.h"

namespace mobicuda::plan_file {
namespace {

namespace fs = std::filesystem;

// Refuses what read() would refuse, and gives the structure's bytes.
std::string readable_structure(const SavedEngine& engine) {
  const plan_schema::Plan message = to_message(engine);
  std::string structure = message.SerializeAsString();
  const Limits limits;
  try {
    require_range(static_cast<std::int64_t>(structure.size()), 0, limits.structure_bytes, "bytes of structure");
    check_structure_bytes(structure);
    from_message(message, limits);
  } catch (const Error& error) {
    throw Error(ErrorCode::unsupported, "the " + engine.backend + " engine",
                "cannot be saved, as no plan file may have it: " + error.where() + ": " + error.message(),
                "compile the model each time");
  }
  return structure;
}

SavedEngine make_engine(Parts parts, const Limits& limits, ReadTimes& times) {
  const auto start = std::chrono::steady_clock::now();
  check_structure_bytes(parts.structure);
  plan_schema::Plan message;
  if (!message.ParseFromString(parts.structure)) {
    throw Error(ErrorCode::invalid_model, "", "has a structure that is no message of plan_schema.proto");
  }
  SavedEngine engine = from_message(message, limits);
  engine.weights = std::move(parts.weights);
  times.parse_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return engine;
}

// The file that is to be written: a symbolic link stays one, and a device or FIFO is not ours to replace.
fs::path file_behind(fs::path path) {
  std::error_code failure;
  const fs::file_type type = fs::status(path, failure).type();
  if (type != fs::file_type::regular && type != fs::file_type::not_found) {
    const std::string why = type == fs::file_type::directory ? "it is a folder"
                            : type == fs::file_type::none    ? failure.message()
                                                             : "it is not a regular file";
    throw Error(ErrorCode::io, path.string(), "cannot be written: " + why, "name a new file or a regular one");
  }
  // A chain of links that ends, as status has seen.
  while (fs::is_symlink(fs::symlink_status(path, failure))) path = path.parent_path() / fs::read_symlink(path, failure);
  return path;
}

void write_file(const fs::path& name, std::span<const std::byte> front, std::span<const std::byte> weights) {
  const std::error_code failure = write_whole_file(file_behind(name), {front, weights});
  if (!failure) return;
  throw Error(
      ErrorCode::io, name.string(), "cannot be written: " + failure.message(),
      "is its folder there, and writable, with room for " + std::to_string(front.size() + weights.size()) + " bytes?");
}

SavedEngine read_open_file(const fs::path& path, const Limits& limits, ReadTimes& times) {
  const auto start = std::chrono::steady_clock::now();
  std::error_code failure;
  // A FIFO without a writer must not hang us.
  if (!fs::is_regular_file(path, failure)) {
    throw Error(ErrorCode::io, "", fs::exists(path, failure) ? "is not a regular file" : "there is no such file");
  }
  // Of what is open: another process may put a new file in its place meanwhile.
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff bytes = in.tellg();
  in.seekg(0);
  if (!in) throw Error(ErrorCode::io, "", "cannot be opened for reading");
  times.read_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const auto next = [&](std::span<std::byte> target) {
    if (in.read(reinterpret_cast<char*>(target.data()), static_cast<std::streamsize>(target.size()))) return;
    throw Error(ErrorCode::io, "", "cannot be read to its end");
  };
  return make_engine(read_parts(next, bytes, limits, times), limits, times);
}

}  // namespace

void save(const Engine& engine, const fs::path& path) {
  with_memory_errors(path.native(), [&] {
    const SavedEngine saved = engine.saved();
    write_file(path, make_front(readable_structure(saved), saved.weights.span()), saved.weights.span());
  });
}

std::vector<std::byte> save_to_memory(const SavedEngine& engine) {
  return with_memory_errors("plan file", [&] {
    std::vector<std::byte> bytes = make_front(to_message(engine).SerializeAsString(), engine.weights.span());
    bytes.insert(bytes.end(), engine.weights.span().begin(), engine.weights.span().end());
    return bytes;
  });
}

SavedEngine read(const fs::path& path, ReadTimes* times, const Limits& limits) {
  ReadTimes own;
  try {
    SavedEngine engine = with_memory_errors("", [&] { return read_open_file(path, limits, own); });
    if (times != nullptr) *times = own;
    return engine;
  } catch (const Error& error) {
    throw error.inside(path.string());
  }
}

SavedEngine read_from_memory(std::span<const std::byte> bytes, const std::string& name, const Limits& limits) {
  ReadTimes times;
  const auto next = [left = bytes](std::span<std::byte> target) mutable {
    std::copy_n(left.begin(), target.size(), target.begin());  // sizes are checked against all bytes before
    left = left.subspan(target.size());
  };
  try {
    return with_memory_errors("", [&] {
      return make_engine(read_parts(next, static_cast<std::int64_t>(bytes.size()), limits, times), limits, times);
    });
  } catch (const Error& error) {
    throw error.inside(name);
  }
}

std::shared_ptr<const Engine> load(const Backend& backend, const fs::path& path, const EngineOptions& options) {
  return with_memory_errors(path.native(), [&] {
    const SavedEngine saved = read(path);
    try {
      return backend.restore(saved, options);
    } catch (const Error& error) {
      throw error.inside(path.string());
    }
  });
}

}  // namespace mobicuda::plan_file
