#pragma once

namespace mobicuda::test {

/// Whether this program's kernels run on tests/emulator, which takes thousands of times as long as a GPU.
bool is_emulated() noexcept;

/// How many random shapes to draw: a third of them for the emulator.
template <class Count>
Count when_emulated_fewer(Count count) {
  return is_emulated() ? (count + 2) / 3 : count;
}

}  // namespace mobicuda::test
