// A plan file on disk. An input is a byte that says what stands in the file's place, and the plan file, whose checksum
// is as it is: whole files come from the seeds, all others are refused.
#include <sys/stat.h>

#include <mobicuda/cpu_backend.h>
#include <mobicuda/plan_file.h>

#include "fuzz/target.h"

namespace mobicuda::fuzz {
namespace {

namespace fs = std::filesystem;

enum Place : std::uint8_t {
  Regular,
  Link,
  DanglingLink,
  LoopingLink,
  Folder,
  Fifo,
  NoFolder,
  NoFile,
  Unreadable,
  kPlaces
};

fs::path put(Place place, Bytes content) {
  fs::path path = scratch_folder() / "net.plan";
  fs::permissions(scratch_folder(), fs::perms::owner_all);
  fs::remove_all(path);
  switch (place) {
    case Link:
    case DanglingLink:
      scratch_file("behind.plan", content);
      fs::create_symlink(place == Link ? "behind.plan" : "absent.plan", path);
      fs::remove(scratch_folder() / "absent.plan");
      break;
    case LoopingLink:
      fs::create_symlink("net.plan", path);
      break;
    case Folder:
      fs::create_directory(path);
      break;
    case Fifo:
      if (mkfifo(path.c_str(), 0600) != 0) fail("cannot make a FIFO");
      break;
    case NoFolder:
      return scratch_folder() / "absent" / "net.plan";
    case NoFile:
      break;
    case Unreadable:
      scratch_file("net.plan", content);
      fs::permissions(path, fs::perms::none);
      break;
    default:
      scratch_file("net.plan", content);
  }
  return path;
}

bool run(Bytes input) {
  if (input.empty()) return false;
  const auto place = static_cast<Place>(input.front() % kPlaces);
  const fs::path path = put(place, input.subspan(1));
  return returns([&] {
    const auto backend = make_cpu_backend();
    EngineOptions options = small_options();
    if (place == DanglingLink || place == NoFile || place == NoFolder || place == Folder || place == Fifo) {
      returns([&] { plan_file::read(path); });
      // What is saved in such a place is read again, or an Error says why it cannot be saved.
      const SavedEngine saved = plan_file::read_from_memory(std::as_bytes(input.subspan(1)), "input");
      options.precision = saved.options.precision;
      options.max_batch = saved.options.max_batch;
      options.picture_input = saved.options.picture_input;
      plan_file::save(*backend->restore(saved, options), path);
    }
    plan_file::ReadTimes times;
    plan_file::read(path, &times);
    const auto engine = plan_file::load(*backend, path, options);
    plan_file::save(*engine, path);
    for (const auto& entry : fs::directory_iterator(scratch_folder())) {
      if (entry.path().extension() == ".tmp") fail("a temporary file was left");
    }
  });
}

}  // namespace

Target plan_disk() { return {run}; }

}  // namespace mobicuda::fuzz
