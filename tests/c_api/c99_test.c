/* c99_test FOLDER: the C interface from a C99 program, against what c_api_expected_files left in FOLDER. Prints what is
 * wrong. */
#include <mobicuda/mobicuda_c.h>
#include <mobicuda/version.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGES 3
#define PIXELS (3 * 32 * 48)
#define CLASSES 10

static int failures = 0;

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) {                                              \
      failures++;                                                    \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      printf("  last error: %s\n", mobicuda_last_error_text());      \
    }                                                                \
  } while (0)
/* The call fails with that status, and its text has these words. */
#define FAILS(call, expected, words)                          \
  do {                                                        \
    CHECK((call) == (expected));                              \
    CHECK(mobicuda_last_error_status() == (expected));        \
    CHECK(strstr(mobicuda_last_error_text(), words) != NULL); \
  } while (0)
#define OK(call) CHECK((call) == MOBICUDA_OK)

static char folder[4000];

static void* read_file(const char* name, size_t* size) {
  char path[4096];
  FILE* file;
  long length;
  void* bytes;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  file = fopen(path, "rb");
  length = file == NULL || fseek(file, 0, SEEK_END) != 0 ? -1 : ftell(file);
  if (length < 0 || fseek(file, 0, SEEK_SET) != 0) {
    printf("cannot read %s\n", path);
    exit(1);
  }
  bytes = malloc((size_t)length + 1);
  *size = fread(bytes, 1, (size_t)length, file);
  fclose(file);
  return bytes;
}

static int same_bits(const void* one, const void* other, size_t size) { return memcmp(one, other, size) == 0; }

static mobicuda_engine_options cpu_options(void) {
  mobicuda_engine_options options = {0};
  options.struct_size = sizeof options;
  options.backend = MOBICUDA_BACKEND_CPU;
  options.max_batch = IMAGES;
  options.threads = 1;
  return options;
}

static mobicuda_engine* load(const mobicuda_engine_options* options) {
  mobicuda_engine* engine = NULL;
  char path[4096];
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  OK(mobicuda_engine_load_onnx(path, NULL, options, &engine));
  if (engine == NULL) exit(1);
  return engine;
}

static void versions(void) {
  CHECK(strcmp(mobicuda_version(), MOBICUDA_VERSION_STRING) == 0);
  CHECK(mobicuda_version_number() == MOBICUDA_VERSION_NUMBER);
  CHECK(mobicuda_has_cuda() == 0 || mobicuda_has_cuda() == 1);
  CHECK(strcmp(mobicuda_status_name(MOBICUDA_OK), "ok") == 0);
  CHECK(strcmp(mobicuda_status_name(MOBICUDA_INVALID_MODEL), "invalid_model") == 0);
  CHECK(strcmp(mobicuda_status_name(MOBICUDA_INTERNAL), "internal") == 0);
  CHECK(strcmp(mobicuda_status_name(-1), "unknown") == 0);
  CHECK(strcmp(mobicuda_status_name(12345), "unknown") == 0);
}

/* Before anything failed on this thread; after, the four parts. */
static void last_error(void) {
  mobicuda_engine* engine = (mobicuda_engine*)&failures;
  CHECK(mobicuda_last_error_status() == MOBICUDA_OK);
  CHECK(mobicuda_last_error_where()[0] == 0 && mobicuda_last_error_message()[0] == 0);
  CHECK(mobicuda_last_error_hint()[0] == 0 && mobicuda_last_error_text()[0] == 0);
  FAILS(mobicuda_engine_load_onnx("/absent/model.onnx", NULL, NULL, &engine), MOBICUDA_IO, "io: /absent/model.onnx");
  CHECK(engine == NULL);
  CHECK(strcmp(mobicuda_last_error_where(), "/absent/model.onnx") == 0);
  CHECK(mobicuda_last_error_message()[0] != 0);
  CHECK(strcmp(mobicuda_version(), "") != 0);
  CHECK(mobicuda_last_error_status() == MOBICUDA_IO); /* stays */
  FAILS(mobicuda_engine_load_plan("", NULL, &engine), mobicuda_last_error_status(), "");
}

static void* of_another_thread(void* engine) {
  CHECK(mobicuda_last_error_status() == MOBICUDA_OK);
  FAILS(mobicuda_engine_get_input(engine, NULL), MOBICUDA_INVALID_ARGUMENT, "mobicuda_engine_get_input: info is NULL");
  return NULL;
}

static void errors_are_a_threads_own(void) {
  mobicuda_engine_options options = cpu_options();
  mobicuda_engine* engine = load(&options);
  pthread_t thread;
  mobicuda_engine* none = NULL;
  FAILS(mobicuda_engine_load_onnx("/absent/model.onnx", NULL, NULL, &none), MOBICUDA_IO, "/absent");
  CHECK(pthread_create(&thread, NULL, of_another_thread, engine) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(mobicuda_last_error_status() == MOBICUDA_IO);
  mobicuda_engine_destroy(engine);
}

static void runs(void) {
  size_t size = 0;
  size_t count = 0;
  size_t i;
  float* input = read_file("input.f32", &size);
  float* expected = read_file("output.f32", &count);
  float output[IMAGES * CLASSES];
  mobicuda_engine_options options = cpu_options();
  mobicuda_engine* engine = load(&options);
  mobicuda_session* session = NULL;
  float* staged = NULL;
  const float* staged_output = NULL;
  const int64_t batches[] = {1, 3};
  const int64_t wrong_batches[] = {1, 4};
  double times[2] = {-1, -1};
  CHECK(size == IMAGES * PIXELS * sizeof(float) && count == sizeof output);

  OK(mobicuda_session_create(engine, &session));
  mobicuda_engine_destroy(engine); /* the session keeps the network */
  OK(mobicuda_session_warm_up(session, batches, 2));
  FAILS(mobicuda_session_warm_up(session, wrong_batches, 2), MOBICUDA_INVALID_ARGUMENT, "4");
  FAILS(mobicuda_session_warm_up(session, NULL, 1), MOBICUDA_INVALID_ARGUMENT, "batches is NULL");

  memset(output, 0xff, sizeof output);
  OK(mobicuda_session_run(session, input, IMAGES * PIXELS, output, IMAGES * CLASSES));
  CHECK(same_bits(output, expected, sizeof output));
  for (i = 0; i < IMAGES; ++i) { /* each image alone */
    OK(mobicuda_session_run(session, input + i * PIXELS, PIXELS, output, CLASSES));
    CHECK(same_bits(output, expected + i * CLASSES, CLASSES * sizeof(float)));
  }

  OK(mobicuda_session_set_input(session, input, IMAGES * PIXELS));
  OK(mobicuda_session_execute(session, 2));
  OK(mobicuda_session_synchronize(session));
  memset(output, 0xff, sizeof output);
  OK(mobicuda_session_get_output(session, output, 2 * CLASSES));
  CHECK(same_bits(output, expected, 2 * CLASSES * sizeof(float)));
  OK(mobicuda_session_time_executions(session, 1, 2, times, 2));
  CHECK(times[0] > 0 && times[1] > 0);

  OK(mobicuda_session_staged_input(session, 2, &staged));
  memcpy(staged, input + PIXELS, 2 * PIXELS * sizeof(float));
  OK(mobicuda_session_run_staged(session, 2));
  OK(mobicuda_session_staged_output(session, 2, &staged_output));
  CHECK(same_bits(staged_output, expected + CLASSES, 2 * CLASSES * sizeof(float)));
  OK(mobicuda_session_enqueue_staged(session, 1));
  OK(mobicuda_session_synchronize(session));

  FAILS(mobicuda_session_run(session, input, 4 * PIXELS, output, 4 * CLASSES), MOBICUDA_INVALID_ARGUMENT, "");
  FAILS(mobicuda_session_run(session, input, PIXELS - 1, output, CLASSES), MOBICUDA_INVALID_ARGUMENT, "");
  FAILS(mobicuda_session_run(session, input, 0, output, 0), MOBICUDA_INVALID_ARGUMENT, "");
  FAILS(mobicuda_session_run(session, input, PIXELS, output, CLASSES + 1), MOBICUDA_INVALID_ARGUMENT, "");
  FAILS(mobicuda_session_run(session, input, (size_t)-1, output, CLASSES), MOBICUDA_INVALID_ARGUMENT,
        "no memory holds");
  FAILS(mobicuda_session_run(session, NULL, PIXELS, output, CLASSES), MOBICUDA_INVALID_ARGUMENT, "input is NULL");
  FAILS(mobicuda_session_run(session, input, PIXELS, NULL, CLASSES), MOBICUDA_INVALID_ARGUMENT, "output is NULL");
  FAILS(mobicuda_session_run_bytes(session, (uint8_t*)input, PIXELS, output, CLASSES), MOBICUDA_INVALID_ARGUMENT, "");
  FAILS(mobicuda_session_execute(session, 0), MOBICUDA_INVALID_ARGUMENT, "0");
  FAILS(mobicuda_session_execute(session, -1), MOBICUDA_INVALID_ARGUMENT, "-1");
  FAILS(mobicuda_session_execute(session, IMAGES + 1), MOBICUDA_INVALID_ARGUMENT, "4");
  FAILS(mobicuda_session_run_staged(session, INT64_MAX), MOBICUDA_INVALID_ARGUMENT, "9223372036854775807");
  FAILS(mobicuda_session_staged_input(session, 0, &staged), MOBICUDA_INVALID_ARGUMENT, "0");
  FAILS(mobicuda_session_staged_input(session, 1, NULL), MOBICUDA_INVALID_ARGUMENT, "input is NULL");
  FAILS(mobicuda_session_time_executions(session, 1, 0, times, 2), MOBICUDA_INVALID_ARGUMENT, "");
  FAILS(mobicuda_session_time_executions(session, 1, 1, times, (size_t)1 << 40), MOBICUDA_INVALID_ARGUMENT, "count");
  if (mobicuda_has_cuda()) {
    FAILS(mobicuda_session_run_on_device(session, 1, input, output, NULL), MOBICUDA_INVALID_ARGUMENT, "");
  } else {
    FAILS(mobicuda_session_run_on_device(session, 1, input, output, NULL), MOBICUDA_UNSUPPORTED, "without CUDA");
    FAILS(mobicuda_session_run_on_device_bytes(session, 1, (uint8_t*)input, output, NULL), MOBICUDA_UNSUPPORTED,
          "without CUDA");
  }
  FAILS(mobicuda_session_run_on_device(session, 1, NULL, output, NULL), MOBICUDA_INVALID_ARGUMENT, "input is NULL");
  mobicuda_session_destroy(session);
  free(input);
  free(expected);
}

static void bytes(void) {
  size_t size = 0;
  uint8_t* pictures = read_file("pictures.u8", &size);
  float* expected = read_file("pictures_output.f32", &size);
  float output[IMAGES * CLASSES];
  const float scale[3] = {1.0F / 64, 1.0F / 128, 1.0F / 64};
  const float shift[3] = {-2.0F, -1.0F, 0.5F};
  mobicuda_engine_options options = cpu_options();
  mobicuda_engine* engine;
  mobicuda_session* session = NULL;
  uint8_t* staged = NULL;
  const float* staged_output = NULL;
  mobicuda_tensor_info info;
  info.struct_size = sizeof info;
  options.picture_input = 1;
  memcpy(options.picture_scale, scale, sizeof scale);
  memcpy(options.picture_shift, shift, sizeof shift);
  engine = load(&options);
  OK(mobicuda_engine_get_input(engine, &info));
  CHECK(info.dtype == MOBICUDA_U8 && info.layout == MOBICUDA_NHWC && info.elements == PIXELS);
  OK(mobicuda_session_create(engine, &session));
  OK(mobicuda_session_run_bytes(session, pictures, IMAGES * PIXELS, output, IMAGES * CLASSES));
  CHECK(same_bits(output, expected, sizeof output));
  OK(mobicuda_session_set_input_bytes(session, pictures + PIXELS, PIXELS));
  OK(mobicuda_session_execute(session, 1));
  OK(mobicuda_session_get_output(session, output, CLASSES));
  CHECK(same_bits(output, expected + CLASSES, CLASSES * sizeof(float)));
  OK(mobicuda_session_staged_pictures(session, IMAGES, &staged));
  memcpy(staged, pictures, IMAGES * PIXELS);
  OK(mobicuda_session_run_staged(session, IMAGES));
  OK(mobicuda_session_staged_output(session, IMAGES, &staged_output));
  CHECK(same_bits(staged_output, expected, sizeof output));
  FAILS(mobicuda_session_run(session, (float*)pictures, PIXELS, output, CLASSES), MOBICUDA_INVALID_ARGUMENT, "");
  mobicuda_session_destroy(session);
  mobicuda_engine_destroy(engine);
  free(pictures);
  free(expected);
}

static void check_run(mobicuda_engine* engine) {
  size_t size = 0;
  float* input = read_file("input.f32", &size);
  float* expected = read_file("output.f32", &size);
  float output[IMAGES * CLASSES];
  mobicuda_session* session = NULL;
  OK(mobicuda_session_create(engine, &session));
  OK(mobicuda_session_run(session, input, IMAGES * PIXELS, output, IMAGES * CLASSES));
  CHECK(same_bits(output, expected, sizeof output));
  mobicuda_session_destroy(session);
  free(input);
  free(expected);
}

static void models_and_plans(void) {
  size_t model_size = 0;
  size_t plan_size = 0;
  void* model = read_file("model.onnx", &model_size);
  void* plan = NULL;
  char path[4096];
  char text[64];
  mobicuda_engine_options options = cpu_options();
  mobicuda_engine* engine = NULL;
  mobicuda_engine* restored = NULL;
  mobicuda_engine_info info;
  mobicuda_import_options import = {0};
  import.struct_size = sizeof import;

  OK(mobicuda_engine_load_onnx_bytes(model, model_size, "my model", NULL, &options, &engine));
  check_run(engine);
  FAILS(mobicuda_engine_load_onnx_bytes(model, model_size / 2, "my model", NULL, &options, &restored),
        MOBICUDA_INVALID_MODEL, "invalid_model: my model");
  CHECK(restored == NULL);
  FAILS(mobicuda_engine_load_onnx_bytes(NULL, 1, NULL, NULL, &options, &restored), MOBICUDA_INVALID_ARGUMENT,
        "bytes is NULL");
  FAILS(mobicuda_engine_load_onnx_bytes(model, model_size, NULL, NULL, &options, NULL), MOBICUDA_INVALID_ARGUMENT,
        "engine is NULL");
  import.nodes = 2;
  FAILS(mobicuda_engine_load_onnx_bytes(model, model_size, NULL, &import, &options, &restored), MOBICUDA_UNSUPPORTED,
        "2");
  import.nodes = -1;
  FAILS(mobicuda_engine_load_onnx_bytes(model, model_size, NULL, &import, &options, &restored),
        MOBICUDA_INVALID_ARGUMENT, "nodes: must not be negative, got -1");

  snprintf(path, sizeof path, "%s/c99.plan", folder);
  OK(mobicuda_engine_save_plan(engine, path));
  OK(mobicuda_engine_serialize(engine, &plan, &plan_size));
  mobicuda_engine_destroy(engine);
  OK(mobicuda_engine_load_plan(path, NULL, &restored)); /* all of it from the plan */
  info.struct_size = sizeof info;
  OK(mobicuda_engine_get_info(restored, &info));
  CHECK(strcmp(info.backend, "cpu") == 0 && info.max_batch == IMAGES && info.precision == MOBICUDA_PRECISION_FP32);
  check_run(restored);
  mobicuda_engine_destroy(restored);
  OK(mobicuda_engine_load_plan_bytes(plan, plan_size, NULL, &options, &restored));
  check_run(restored);
  mobicuda_engine_destroy(restored);

  options.max_batch = IMAGES + 1;
  FAILS(mobicuda_engine_load_plan(path, &options, &restored), MOBICUDA_INVALID_ARGUMENT, "max_batch");
  CHECK(strstr(mobicuda_last_error_where(), "c99.plan") != NULL);
  options.max_batch = 0;
  options.precision = MOBICUDA_PRECISION_FP64;
  FAILS(mobicuda_engine_load_plan_bytes(plan, plan_size, NULL, &options, &restored), MOBICUDA_INVALID_ARGUMENT,
        "precision");
  options.precision = MOBICUDA_PRECISION_DEFAULT;
  options.backend = MOBICUDA_BACKEND_CUSTOM;
  CHECK(mobicuda_engine_load_plan(path, &options, &restored) != MOBICUDA_OK && restored == NULL);
  FAILS(mobicuda_engine_load_plan_bytes(plan, plan_size - 1, "cut", NULL, &restored), MOBICUDA_INVALID_MODEL, "cut");
  FAILS(mobicuda_engine_load_plan(NULL, NULL, &restored), MOBICUDA_INVALID_ARGUMENT, "path is NULL");
  FAILS(mobicuda_engine_save_plan(NULL, path), MOBICUDA_INVALID_ARGUMENT, "engine is NULL");
  sprintf(text, "/absent/%d.plan", IMAGES);
  mobicuda_free_bytes(plan);
  mobicuda_free_bytes(NULL);
  free(model);
  options = cpu_options();
  engine = load(&options);
  FAILS(mobicuda_engine_save_plan(engine, text), MOBICUDA_IO, text);
  FAILS(mobicuda_engine_save_plan(engine, NULL), MOBICUDA_INVALID_ARGUMENT, "path is NULL");
  FAILS(mobicuda_engine_serialize(engine, NULL, &plan_size), MOBICUDA_INVALID_ARGUMENT, "bytes is NULL");
  mobicuda_engine_destroy(engine);
}

static void descriptions(void) {
  mobicuda_engine_options options = cpu_options();
  mobicuda_engine* engine = load(&options);
  mobicuda_tensor_info tensor;
  mobicuda_memory_report memory;
  mobicuda_layer_info layer;
  size_t count = 0;
  size_t i;
  int64_t weights = 0;
  tensor.struct_size = sizeof tensor;
  OK(mobicuda_engine_get_input(engine, &tensor));
  CHECK(tensor.dtype == MOBICUDA_F32 && tensor.layout == MOBICUDA_NCHW && tensor.rank == 4 &&
        tensor.elements == PIXELS);
  CHECK(tensor.shape[0] == 1 && tensor.shape[1] == 3 && tensor.shape[2] == 32 && tensor.shape[3] == 48 &&
        tensor.shape[4] == 0);
  OK(mobicuda_engine_get_output(engine, &tensor));
  CHECK(tensor.rank == 2 && tensor.shape[1] == CLASSES && tensor.shape[2] == 0);
  memory.struct_size = sizeof memory;
  OK(mobicuda_engine_get_memory(engine, &memory));
  CHECK(memory.weight_bytes > 0 && memory.arena_bytes > 0);
  OK(mobicuda_engine_get_layer_count(engine, 1, &count));
  CHECK(count > 5);
  for (i = 0; i < count; ++i) {
    layer.struct_size = sizeof layer;
    OK(mobicuda_engine_get_layer(engine, 1, i, &layer));
    CHECK(layer.name[0] != 0 && layer.kernel[0] != 0 && layer.reason != NULL && layer.value != NULL);
    weights += layer.weight_bytes;
  }
  CHECK(weights > 0);
  FAILS(mobicuda_engine_get_layer(engine, 1, count, &layer), MOBICUDA_INVALID_ARGUMENT, "layer: must be less than");
  FAILS(mobicuda_engine_get_layer(engine, 0, 0, &layer), MOBICUDA_INVALID_ARGUMENT, "0");
  FAILS(mobicuda_engine_get_layer(engine, IMAGES + 1, 0, &layer), MOBICUDA_INVALID_ARGUMENT, "4");
  FAILS(mobicuda_engine_get_layer_count(engine, 1, NULL), MOBICUDA_INVALID_ARGUMENT, "count is NULL");
  mobicuda_engine_destroy(engine);
}

/* A caller of a later version, whose structure has two more words; one of an earlier version, whose structure ends
 * early. */
static void sizes_of_structures(void) {
  struct {
    mobicuda_engine_options known;
    int64_t later[2];
  } newer = {{0}, {0}};
  struct {
    mobicuda_memory_report known;
    int64_t later[2];
  } report;
  mobicuda_engine* engine = NULL;
  mobicuda_engine_options options = cpu_options();
  mobicuda_tensor_info tensor;
  char path[4096];
  char expected[64];
  snprintf(path, sizeof path, "%s/model.onnx", folder);

  newer.known = cpu_options();
  newer.known.struct_size = sizeof newer;
  OK(mobicuda_engine_load_onnx(path, NULL, &newer.known, &engine));
  report.known.struct_size = sizeof report;
  report.later[0] = report.later[1] = 77;
  OK(mobicuda_engine_get_memory(engine, &report.known));
  CHECK(report.known.weight_bytes > 0 && report.later[0] == 0 && report.later[1] == 0);
  CHECK(report.known.struct_size == sizeof report);
  tensor.struct_size = 24; /* up to the rank */
  tensor.rank = 0;
  tensor.shape[0] = 77;
  OK(mobicuda_engine_get_input(engine, &tensor));
  CHECK(tensor.rank == 4 && tensor.shape[0] == 77);
  mobicuda_engine_destroy(engine);
  newer.later[1] = 1;
  FAILS(mobicuda_engine_load_onnx(path, NULL, &newer.known, &engine), MOBICUDA_UNSUPPORTED, "mobicuda_engine_options");
  sprintf(expected, "byte %u of %u is set", (unsigned)(sizeof options + 8), (unsigned)sizeof newer);
  CHECK(strstr(mobicuda_last_error_message(), expected) != NULL);
  CHECK(mobicuda_last_error_hint()[0] != 0);

  options.struct_size = 24; /* up to max_batch: threads and all after it are defaults */
  options.device = -77;
  options.host_transfer = 99;
  OK(mobicuda_engine_load_onnx(path, NULL, &options, &engine));
  mobicuda_engine_destroy(engine);
  options.struct_size = sizeof options;
  FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), MOBICUDA_INVALID_ARGUMENT,
        "host_transfer: there is no value 99");
  options = cpu_options();
  options.struct_size = 0;
  FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), MOBICUDA_INVALID_ARGUMENT, "struct_size is 0");
  options.struct_size = 21; /* would cut a field */
  FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), MOBICUDA_INVALID_ARGUMENT, "struct_size is 21");
  options.struct_size = (size_t)-8;
  FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), MOBICUDA_INVALID_ARGUMENT,
        "struct_size is 18446744073709551608");
}

static void wrong_options(void) {
  char path[4096];
  const int64_t batches[] = {2, 1};
  mobicuda_kernel_variant variants[2] = {{"gemm", "a"}, {"gemm", "b"}};
  mobicuda_engine* engine = NULL;
  mobicuda_engine_options options;
  snprintf(path, sizeof path, "%s/model.onnx", folder);
#define REFUSED(field, value, status, words)                                        \
  do {                                                                              \
    options = cpu_options();                                                        \
    options.field = value;                                                          \
    FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), status, words); \
    CHECK(engine == NULL);                                                          \
  } while (0)
  REFUSED(backend, 9, MOBICUDA_INVALID_ARGUMENT, "backend: there is no value 9");
  REFUSED(precision, -1, MOBICUDA_INVALID_ARGUMENT, "precision: there is no value -1");
  REFUSED(precision, MOBICUDA_PRECISION_TF32, MOBICUDA_UNSUPPORTED, "");
  REFUSED(specialise, 3, MOBICUDA_INVALID_ARGUMENT, "specialise: there is no value 3");
  REFUSED(max_batch, -1, MOBICUDA_INVALID_ARGUMENT, "max_batch");
  REFUSED(threads, -1, MOBICUDA_INVALID_ARGUMENT, "threads");
  REFUSED(reserved, 1, MOBICUDA_INVALID_ARGUMENT, "reserved");
  REFUSED(max_memory_bytes, -1, MOBICUDA_INVALID_ARGUMENT, "max_memory_bytes");
  REFUSED(plan_batch_count, 1, MOBICUDA_INVALID_ARGUMENT, "plan_batches is NULL");
  REFUSED(kernel_variant_count, 1, MOBICUDA_INVALID_ARGUMENT, "kernel_variants is NULL");
  options = cpu_options();
  options.plan_batches = batches;
  options.plan_batch_count = 2;
  FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), MOBICUDA_INVALID_ARGUMENT, "plan_batches");
  options.plan_batch_count = (size_t)1 << 60;
  FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), MOBICUDA_INVALID_ARGUMENT,
        "plan_batch_count: must be at most");
  options = cpu_options();
  options.kernel_variants = variants;
  options.kernel_variant_count = 2;
  FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), MOBICUDA_INVALID_ARGUMENT, "'gemm' is named twice");
  variants[1].kernel = NULL;
  FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), MOBICUDA_INVALID_ARGUMENT, "kernel_variants[1]");
  options.kernel_variant_count = (size_t)-1;
  FAILS(mobicuda_engine_load_onnx(path, NULL, &options, &engine), MOBICUDA_INVALID_ARGUMENT, "kernel_variant_count");
  options = cpu_options();
  options.max_memory_bytes = 1000;
  OK(mobicuda_engine_load_onnx(path, NULL, &options, &engine));
  {
    mobicuda_session* session = (mobicuda_session*)&options;
    FAILS(mobicuda_session_create(engine, &session), MOBICUDA_OUT_OF_MEMORY, "");
    CHECK(session == NULL);
  }
  mobicuda_engine_destroy(engine);
  FAILS(mobicuda_engine_load_onnx(path, NULL, NULL, NULL), MOBICUDA_INVALID_ARGUMENT, "engine is NULL");
  if (!mobicuda_has_cuda()) {
    FAILS(mobicuda_engine_load_onnx(path, NULL, NULL, &engine), MOBICUDA_DEVICE_UNAVAILABLE, "");
  }
}

static void wrong_handles(void) {
  mobicuda_engine_options options = cpu_options();
  mobicuda_engine* engine = load(&options);
  mobicuda_session* session = NULL;
  mobicuda_session* none = NULL;
  float output[CLASSES];
  mobicuda_tensor_info info;
  info.struct_size = sizeof info;
  OK(mobicuda_session_create(engine, &session));
  FAILS(mobicuda_engine_get_input((mobicuda_engine*)session, &info), MOBICUDA_INVALID_ARGUMENT,
        "no handle of an engine");
  FAILS(mobicuda_session_get_output((mobicuda_session*)engine, output, CLASSES), MOBICUDA_INVALID_ARGUMENT,
        "no handle of a session");
  FAILS(mobicuda_session_create((mobicuda_engine*)session, &none), MOBICUDA_INVALID_ARGUMENT, "no handle of an engine");
  FAILS(mobicuda_session_create(NULL, &none), MOBICUDA_INVALID_ARGUMENT, "engine is NULL");
  FAILS(mobicuda_session_create(engine, NULL), MOBICUDA_INVALID_ARGUMENT, "session is NULL");
  FAILS(mobicuda_session_synchronize(NULL), MOBICUDA_INVALID_ARGUMENT, "session is NULL");
  mobicuda_engine_destroy((mobicuda_engine*)session); /* leaves it alone */
  mobicuda_session_destroy((mobicuda_session*)engine);
  FAILS(mobicuda_session_get_output(session, output, CLASSES), MOBICUDA_INVALID_ARGUMENT, "");
  mobicuda_session_destroy(session);
  mobicuda_engine_destroy(engine);
  mobicuda_session_destroy(NULL);
  mobicuda_engine_destroy(NULL);
}

int main(int count, char** arguments) {
  if (count != 2) {
    printf("usage: c99_test FOLDER\n");
    return 2;
  }
  snprintf(folder, sizeof folder, "%s", arguments[1]);
  versions();
  last_error();
  errors_are_a_threads_own();
  runs();
  bytes();
  models_and_plans();
  descriptions();
  sizes_of_structures();
  wrong_options();
  wrong_handles();
  printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
