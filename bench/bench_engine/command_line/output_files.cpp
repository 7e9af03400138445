#include "bench_engine/command_line/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <mobicuda/error.h>

#include "bench_engine/model/exit_codes.h"

namespace mobicuda::bench {
namespace {

namespace fs = std::filesystem;

std::vector<NamedFile> outputs_of(const Options& options) {
  return {{"--saveEngine", options.save_engine},
          {"--saveOutputs", options.save_outputs},
          {"--json", options.json},
          {"--csv", options.csv},
          {"--exportTimes", options.export_times},
          {"--exportProfile", options.export_profile},
          {"--exportLayerInfo", options.export_layer_info},
          {"--exportTrace", options.export_trace},
          {"--exportOutput", options.export_output}};
}

// /dev/stdout and the like may be named more than once.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  if (fs::exists(a, ignored) && fs::exists(b, ignored)) {
    return fs::is_regular_file(a, ignored) && fs::equivalent(a, b, ignored);
  }
  return fs::weakly_canonical(fs::absolute(a), ignored) == fs::weakly_canonical(fs::absolute(b), ignored);
}

// A pipe that this process writes already, as /dev/stdout may be one: its reader is there.
bool written_by_us(const fs::path& pipe) {
  struct stat wanted {};
  if (stat(pipe.c_str(), &wanted) != 0) return false;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd", ignored)) {
    const int fd = std::stoi(entry.path().filename().string());
    struct stat open_file {};
    const bool same =
        fstat(fd, &open_file) == 0 && open_file.st_dev == wanted.st_dev && open_file.st_ino == wanted.st_ino;
    if (same && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY) return true;
  }
  return false;
}

// Opens the file as writing it will, without changing it; what was not there goes again. Gives the reason where that
// fails.
std::string why_not_opened(const fs::path& path) {
  std::error_code ignored;
  const bool there = fs::exists(path, ignored);
  const bool link = fs::is_symlink(path, ignored);
  const int create = there ? 0 : O_CREAT | (link ? 0 : O_EXCL);
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | create, 0666);
  if (fd < 0) return std::generic_category().message(errno);
  close(fd);
  if (!there) fs::remove(fs::canonical(path, ignored), ignored);
  return {};
}

void require_writable(const NamedFile& output) {
  const fs::path& path = output.path;
  if (path.empty()) return;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code ignored;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::io, path.string(), "cannot be written: " + why);
  };
  if (!fs::is_directory(folder, ignored)) refuse("no such folder: " + folder.string());
  if (fs::is_directory(path, ignored)) refuse("it is a folder");
  const bool other = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  if (other && output.option == "--saveEngine") refuse("a plan file must be a regular file");
  if (fs::is_fifo(path, ignored) && !written_by_us(path)) {
    refuse("it is a pipe, which waits for a reader; name a file, or /dev/stdout and pipe that");
  }
  if (fs::is_socket(path, ignored)) refuse("it is a socket");
  if (fs::is_block_file(path, ignored)) refuse("it is a block device");
  const std::string why = why_not_opened(path);
  if (!why.empty()) refuse(why);
}

}  // namespace

void require_apart(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->path.empty()) continue;
    for (const NamedFile& input : inputs) {
      if (!input.path.empty() && same_file(output->path, input.path)) {
        throw UsageError(output->option + ": " + output->path.string() + " is an input, given as " + input.option +
                         ", and would be overwritten");
      }
    }
    for (auto other = outputs.begin(); other != output; ++other) {
      if (!other->path.empty() && same_file(output->path, other->path)) {
        throw UsageError(other->option + " and " + output->option + " name the same file: " + output->path.string());
      }
    }
  }
}

void check_outputs(const Options& options) {
  require_apart({{"--model", options.model},
                 {"--loadEngine", options.load_engine},
                 {"--timingCacheFile", options.timing_cache},
                 {"--loadInputs", options.load_inputs},
                 {"--golden", options.golden},
                 {"--labels", options.labels},
                 {"--referenceLogits", options.reference_logits},
                 {"--referenceList", options.reference_list}},
                outputs_of(options));
}

void require_writable(const Options& options) {
  for (const NamedFile& output : outputs_of(options)) require_writable(output);
}

}  // namespace mobicuda::bench
