#pragma once

#include <filesystem>

namespace mobicuda::test {

/// The project's own folder.
std::filesystem::path source_folder();

/// Where real weights and pictures lie (MOBICUDA_SHARED_DIR of CMake); not every machine has it.
std::filesystem::path shared_folder();

}  // namespace mobicuda::test
