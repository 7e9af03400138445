#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string_view>
#include <system_error>

namespace mobicuda {

/// What a file is called until it is whole ends so. A process that is killed may leave one.
inline constexpr std::string_view kUnfinishedFile = ".tmp";

/// Writes a file in one step, in place of what was there: who reads it meanwhile, or after this process was killed,
/// sees the old content or the new one, never a part. In a folder that others may write no link of theirs is followed.
/// Where it fails the old file stays, and nothing beside it.
std::error_code write_whole_file(const std::filesystem::path& path,
                                 std::initializer_list<std::span<const std::byte>> parts);

}  // namespace mobicuda
