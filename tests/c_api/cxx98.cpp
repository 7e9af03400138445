// What a program in C++98 does with the header: it is compiled, never run.
#include <mobicuda/mobicuda_c.h>
#include <mobicuda/version.h>

// NOLINTNEXTLINE(misc-use-internal-linkage): nobody calls it
mobicuda_status load(const char* path, mobicuda_engine** engine) {
  mobicuda_engine_options options = mobicuda_engine_options();
  options.struct_size = sizeof options;
  options.max_batch = MOBICUDA_VERSION_NUMBER > 0 ? 8 : 1;
  return mobicuda_engine_load_onnx(path, 0, &options, engine);
}
