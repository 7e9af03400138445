// libFuzzer's entry points for one target: FUZZ_TARGET.
#include "fuzz/target.h"

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mobicuda::fuzz::FUZZ_TARGET().run({data, size});
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  const auto mutate = mobicuda::fuzz::FUZZ_TARGET().mutate;
  return mutate == nullptr ? LLVMFuzzerMutate(data, size, room) : mutate(data, size, room, seed);
}
}

namespace mobicuda::fuzz {

std::size_t plain_mutation(std::uint8_t* data, std::size_t size, std::size_t room) {
  return LLVMFuzzerMutate(data, size, room);
}

}  // namespace mobicuda::fuzz
