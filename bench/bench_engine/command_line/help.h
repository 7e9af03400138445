#pragma once

#include <CLI/CLI.hpp>
#include <iosfwd>
#include <string>

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {

/// --help with lines of at most 100 characters, and types as short as they can be told.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_option_usage(const CLI::Option* option) const override;
};

/// What ended the parsing: --help or --version on `out`, a mistake on `err`.
ExitCode tell(const CLI::App& app, const CLI::ParseError& error, std::ostream& out, std::ostream& err);

}  // namespace mobicuda::bench
