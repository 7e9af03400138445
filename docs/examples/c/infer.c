/* Runs a network on raw numbers:
 *
 *   infer MODEL.onnx INPUT.f32 OUTPUT.f32
 *
 * INPUT.f32 has the float32 values of one image or more, one after the other, and OUTPUT.f32 gets their outputs. Runs
 * on the GPU where there is one, else on the CPU. */
#include <mobicuda/mobicuda_c.h>

#include <stdio.h>
#include <stdlib.h>

static mobicuda_engine* load(const char* path, int64_t images) {
  mobicuda_engine* engine = NULL;
  mobicuda_engine_options options = {0}; /* 0 is every field's default */
  mobicuda_status status;
  options.struct_size = sizeof options;
  options.max_batch = images;
  status = mobicuda_engine_load_onnx(path, NULL, &options, &engine);
  if (status == MOBICUDA_DEVICE_UNAVAILABLE) {
    options.backend = MOBICUDA_BACKEND_CPU;
    mobicuda_engine_load_onnx(path, NULL, &options, &engine);
  }
  return engine;
}

/* The file's floats, the caller's to free; NULL where it cannot be read. */
static float* read_floats(const char* path, size_t* count) {
  FILE* file = fopen(path, "rb");
  long bytes = -1;
  float* values = NULL;
  if (file == NULL) return NULL;
  if (fseek(file, 0, SEEK_END) == 0) bytes = ftell(file);
  if (bytes > 0 && fseek(file, 0, SEEK_SET) == 0) values = malloc((size_t)bytes);
  *count = values == NULL ? 0 : fread(values, sizeof(float), (size_t)bytes / sizeof(float), file);
  fclose(file);
  return values;
}

static int write_floats(const char* path, const float* values, size_t count) {
  FILE* file = fopen(path, "wb");
  size_t written;
  if (file == NULL) return 0;
  written = fwrite(values, sizeof(float), count, file);
  return fclose(file) == 0 && written == count;
}

/* 0 where all went well; else mobicuda_last_error_text() says what did not. */
static int infer(mobicuda_session* session, const float* input, size_t input_count, float* output, size_t output_count,
                 const char* path) {
  if (mobicuda_session_run(session, input, input_count, output, output_count) != MOBICUDA_OK) return 1;
  if (!write_floats(path, output, output_count)) {
    fprintf(stderr, "infer: cannot write %s\n", path);
    return 2;
  }
  return 0;
}

int main(int count, char** arguments) {
  mobicuda_engine* engine = NULL;
  mobicuda_session* session = NULL;
  mobicuda_tensor_info in = {0};
  mobicuda_tensor_info out = {0};
  size_t values = 0;
  size_t images;
  float* input;
  float* output = NULL;
  int failed = 1;
  if (count != 4) {
    fprintf(stderr, "usage: infer MODEL.onnx INPUT.f32 OUTPUT.f32\n");
    return 2;
  }
  input = read_floats(arguments[2], &values);
  if (input == NULL) {
    fprintf(stderr, "infer: cannot read %s\n", arguments[2]);
    return 2;
  }
  in.struct_size = sizeof in;
  out.struct_size = sizeof out;
  engine = load(arguments[1], 1); /* to learn how large an image is */
  if (engine != NULL && mobicuda_engine_get_input(engine, &in) == MOBICUDA_OK &&
      mobicuda_engine_get_output(engine, &out) == MOBICUDA_OK) {
    images = values / (size_t)in.elements;
    mobicuda_engine_destroy(engine);
    engine = load(arguments[1], (int64_t)images);
    output = malloc(images * (size_t)out.elements * sizeof(float) + 1);
    if (engine != NULL && output != NULL && mobicuda_session_create(engine, &session) == MOBICUDA_OK) {
      failed = infer(session, input, values, output, images * (size_t)out.elements, arguments[3]);
    }
  }
  if (failed == 1) fprintf(stderr, "infer: %s\n", mobicuda_last_error_text());
  mobicuda_session_destroy(session);
  mobicuda_engine_destroy(engine);
  free(input);
  free(output);
  return failed;
}
