#pragma once

#include <string_view>

#include <mobicuda/plan_file.h>
#include <mobicuda/saved_engine.h>

#include <plan_schema.pb.h>

namespace mobicuda::plan_file {

/// A saved engine without its weights as a message, and back. from_message() throws Error(invalid_model) on what no
/// graph can be, and Error(unsupported) on another library's version.
plan_schema::Plan to_message(const SavedEngine& engine);
SavedEngine from_message(const plan_schema::Plan& plan, const Limits& limits);

/// Throws Error(invalid_model) where a structure would take far more memory once it is parsed than in the file.
void check_structure_bytes(std::string_view structure);

Graph decode_graph(const plan_schema::Graph& graph, const Limits& limits);

/// Throws Error(invalid_model) unless value is from low to high.
void require_range(std::int64_t value, std::int64_t low, std::int64_t high, std::string_view what);
/// Text that a file may have, printable(). Throws Error(invalid_model) where it is too long.
std::string checked_text(const std::string& text, const Limits& limits);

}  // namespace mobicuda::plan_file
