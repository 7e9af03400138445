// A plan file. Before it is read its checksum is put right, its library version and its processor become those of this
// build, so that inputs get past them, also in later versions.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/plan_file.h>
#include <mobicuda/version.h>

#include "fuzz/target.h"
#include "plan_file/frame.h"

namespace mobicuda::fuzz {
namespace {

constexpr std::size_t kHeadBytes = 64;
constexpr std::size_t kStructureBytesAt = 16;  // in the head
constexpr char kVersionTag = 0x0A;             // field 1 of bytes: the library's version

struct Split {
  std::string structure;
  Bytes weights;
};

// The parts as the head says, as far as the input reaches.
Split split(Bytes input) {
  Split parts;
  if (input.size() < kHeadBytes) return parts;
  std::int64_t said = 0;
  std::memcpy(&said, input.data() + kStructureBytesAt, sizeof said);
  const std::size_t most = input.size() - kHeadBytes;
  const auto bytes = static_cast<std::size_t>(std::clamp<std::int64_t>(said, 0, static_cast<std::int64_t>(most)));
  parts.structure.assign(reinterpret_cast<const char*>(input.data()) + kHeadBytes, bytes);
  const std::size_t end = kHeadBytes + bytes;
  const std::size_t aligned = (end + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
  if (aligned < input.size()) parts.weights = input.subspan(aligned);
  return parts;
}

void use_this_version(std::string& structure) {
  if (structure.size() < 2 || structure[0] != kVersionTag) return;
  const auto length = static_cast<unsigned char>(structure[1]);
  if (length >= 0x80 || structure.size() < std::size_t{2} + length) return;
  const std::string version(mobicuda::version());
  structure.replace(1, std::size_t{1} + length, static_cast<char>(version.size()) + version);
}

std::vector<std::byte> put_right(const Split& parts) {
  std::string structure = parts.structure;
  use_this_version(structure);
  const auto weights = std::as_bytes(parts.weights);
  std::vector<std::byte> file = plan_file::make_front(structure, weights);
  file.insert(file.end(), weights.begin(), weights.end());
  return file;
}

std::string processor_of_this_machine() {
  GraphBuilder builder("any");
  const ValueId x = builder.set_input("x", {DType::F32, Shape{1, 3, 1, 1}, Layout::NCHW});
  const ValueId y = builder.add_node(Clip{}, {x}, {}, "y");
  return make_cpu_backend()->compile(std::move(builder).build(y), small_options())->saved().processor;
}

bool run(Bytes input) {
  // As it is: the head and the checksum.
  returns([&] { plan_file::read_from_memory(std::as_bytes(input), "input"); });
  const auto file = put_right(split(input));
  return returns([&] {
    SavedEngine saved = plan_file::read_from_memory(file, "input");
    print(saved.graph);
    plan_file::save_to_memory(saved);
    if (!is_small(saved.graph)) return;
    const auto backend = make_cpu_backend();
    EngineOptions options = small_options();
    options.precision = saved.options.precision;
    options.max_batch = saved.options.max_batch;
    options.picture_input = saved.options.picture_input;
    options.kernel_variants = saved.options.kernel_variants;
    static const std::string fp32_processor = processor_of_this_machine();
    if (saved.options.precision == Precision::Fp32) saved.processor = fp32_processor;
    const auto engine = backend->restore(saved, options);
    run_once(*engine);
    plan_file::save_to_memory(engine->saved());
  });
}

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  constexpr unsigned kPlainOneIn = 8;
  if (size < kHeadBytes || seed % kPlainOneIn == 0) return plain_mutation(data, size, room);
  Split parts = split({data, size});
  const std::string weights(parts.weights.begin(), parts.weights.end());
  const std::size_t before = parts.structure.size();
  const std::size_t most = before + 256;
  parts.structure.resize(most);
  parts.structure.resize(
      mutate_message(reinterpret_cast<std::uint8_t*>(parts.structure.data()), before, most, seed / kPlainOneIn));
  parts.weights = {reinterpret_cast<const std::uint8_t*>(weights.data()), weights.size()};
  const auto front = plan_file::make_front(parts.structure, std::as_bytes(parts.weights));
  if (front.size() + weights.size() > room) return plain_mutation(data, size, room);
  std::memcpy(data, front.data(), front.size());
  std::copy(weights.begin(), weights.end(), data + front.size());
  return front.size() + weights.size();
}

}  // namespace

Target plan() { return {run, mutate}; }

}  // namespace mobicuda::fuzz
