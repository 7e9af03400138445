"""ctypes_test.py LIBRARY HEADER FOLDER: the C interface from Python, without packages, against what
c_api_expected_files left in FOLDER. Structures, enumerators and signatures are read from the header, so that
ctypes checks the calls against it."""

import ctypes
import pathlib
import re
import sys
import unittest

LIBRARY, HEADER, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]).read_text(), pathlib.Path(sys.argv[3])
IMAGES, CLASSES = 3, 10

TYPES = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint8_t": ctypes.c_uint8, "size_t": ctypes.c_size_t,
         "float": ctypes.c_float, "double": ctypes.c_double, "char": ctypes.c_char, "mobicuda_status": ctypes.c_int32}
STRUCTS, NUMBERS = {}, {}
LOG = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)


def c_type(text):
    """The ctypes type of "const char*", "mobicuda_engine**", ..."""
    name = text.replace("const", "").replace("*", "").strip()
    stars = text.count("*")
    if name == "mobicuda_log_callback":
        return LOG
    if name == "char" and stars == 1:
        return ctypes.c_char_p
    if name in TYPES or name in STRUCTS:
        result = TYPES.get(name) or STRUCTS[name]
    else:  # a handle, or void
        if name == "void" and stars == 0:
            return None
        result, stars = ctypes.c_void_p, stars - 1
    for _ in range(stars):
        result = ctypes.POINTER(result)
    return result


def read_header():
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    NUMBERS.update((name, int(value)) for name, value in re.findall(r"(MOBICUDA_\w+) = (\d+)", code))
    NUMBERS.update((name, int(value)) for name, value in re.findall(r"#define (MOBICUDA_\w+) (\d+)", code))
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", code, flags=re.S):
        fields = []
        for declaration in filter(None, (part.strip() for part in body.split(";"))):
            kind, field, count = re.fullmatch(r"(.*?)(\w+)(?:\[(\w+)\])?", declaration, flags=re.S).groups()
            kind = c_type(kind)
            fields.append((field, kind * int(NUMBERS.get(count, count)) if count else kind))
        STRUCTS[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    library = ctypes.CDLL(LIBRARY)
    names = []
    for result, name, parameters in re.findall(r"MOBICUDA_API (.*?)(\w+)\((.*?)\);", code, flags=re.S):
        function = getattr(library, name)
        function.restype = c_type(result)
        function.argtypes = [] if parameters == "void" else [
            c_type(re.fullmatch(r"(.*?)\w+", part.strip(), flags=re.S).group(1)) for part in parameters.split(",")]
        names.append(name)
    return library, names


C, FUNCTIONS = read_header()


def struct(name, **values):
    result = STRUCTS[name](**values)
    result.struct_size = ctypes.sizeof(result)
    return result


def cpu_options(**values):
    return struct("mobicuda_engine_options",
                  backend=NUMBERS["MOBICUDA_BACKEND_CPU"], max_batch=IMAGES, threads=1, **values)


def ok(status):
    if status != NUMBERS["MOBICUDA_OK"]:
        raise AssertionError(C.mobicuda_last_error_text().decode())


def load(options):
    engine = ctypes.c_void_p()
    path = str(FOLDER / "model.onnx").encode()
    ok(C.mobicuda_engine_load_onnx(path, None, ctypes.byref(options), ctypes.byref(engine)))
    return engine


def floats(name):
    data = (FOLDER / name).read_bytes()
    return (ctypes.c_float * (len(data) // 4)).from_buffer_copy(data)


class CtypesTest(unittest.TestCase):
    def test_header_is_whole(self):
        self.assertGreater(len(FUNCTIONS), 35)
        self.assertIn("mobicuda_session_run_on_device", FUNCTIONS)
        self.assertEqual([name for name in FUNCTIONS if not name.startswith("mobicuda_")], [])
        self.assertEqual(len(STRUCTS), 7)
        for name, kind in STRUCTS.items():
            if name != "mobicuda_kernel_variant":
                self.assertEqual(kind._fields_[0], ("struct_size", ctypes.c_size_t), name)
                self.assertEqual(ctypes.sizeof(kind) % 8, 0, name)
                self.assertEqual(sum(ctypes.sizeof(field) for _, field in kind._fields_), ctypes.sizeof(kind),
                                 f"gaps in {name}")

    def test_version(self):
        major, minor, patch = map(int, C.mobicuda_version().decode().split("."))
        self.assertEqual(C.mobicuda_version_number(), major * 10000 + minor * 100 + patch)

    def test_floats_are_those_of_cpp(self):
        engine = load(cpu_options())
        session = ctypes.c_void_p()
        ok(C.mobicuda_session_create(engine, ctypes.byref(session)))
        values, expected = floats("input.f32"), floats("output.f32")
        output = (ctypes.c_float * (IMAGES * CLASSES))()
        ok(C.mobicuda_session_run(session, values, len(values), output, len(output)))
        self.assertEqual(bytes(output), bytes(expected))
        C.mobicuda_session_destroy(session)
        C.mobicuda_engine_destroy(engine)

    def test_bytes_are_those_of_cpp(self):
        engine = load(cpu_options(picture_input=1, picture_scale=(
            1 / 64, 1 / 128, 1 / 64), picture_shift=(-2, -1, 0.5)))
        session, staged, result = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_uint8)(), ctypes.POINTER(ctypes.c_float)()
        ok(C.mobicuda_session_create(engine, ctypes.byref(session)))
        pictures, expected = (FOLDER / "pictures.u8").read_bytes(), floats("pictures_output.f32")
        ok(C.mobicuda_session_staged_pictures(session, IMAGES, ctypes.byref(staged)))
        ctypes.memmove(staged, pictures, len(pictures))
        ok(C.mobicuda_session_run_staged(session, IMAGES))
        ok(C.mobicuda_session_staged_output(session, IMAGES, ctypes.byref(result)))
        self.assertEqual(result[:IMAGES * CLASSES], expected[:])
        C.mobicuda_session_destroy(session)
        C.mobicuda_engine_destroy(engine)

    def test_plan_by_way_of_bytes(self):
        engine, data, size = load(cpu_options()), ctypes.c_void_p(), ctypes.c_size_t()
        ok(C.mobicuda_engine_serialize(engine, ctypes.byref(data), ctypes.byref(size)))
        plan = ctypes.string_at(data, size.value)
        C.mobicuda_free_bytes(data)
        C.mobicuda_engine_destroy(engine)
        self.assertEqual(plan[:8], b"MOBIPLAN")
        ok(C.mobicuda_engine_load_plan_bytes(plan, len(plan), b"plan", None, ctypes.byref(engine)))
        info = struct("mobicuda_engine_info")
        ok(C.mobicuda_engine_get_info(engine, ctypes.byref(info)))
        self.assertEqual((info.backend, info.max_batch), (b"cpu", IMAGES))
        C.mobicuda_engine_destroy(engine)

    def test_layers(self):
        engine, count = load(cpu_options()), ctypes.c_size_t()
        ok(C.mobicuda_engine_get_layer_count(engine, 1, ctypes.byref(count)))
        layer = struct("mobicuda_layer_info")
        for i in range(count.value):
            ok(C.mobicuda_engine_get_layer(engine, 1, i, ctypes.byref(layer)))
            self.assertTrue(layer.name)
        self.assertEqual((layer.rank, layer.shape[1]), (2, CLASSES))
        C.mobicuda_engine_destroy(engine)

    def test_errors(self):
        engine = ctypes.c_void_p()
        self.assertEqual(
    C.mobicuda_engine_load_onnx(
        b"/absent.onnx",
        None,
        None,
        ctypes.byref(engine)),
         NUMBERS["MOBICUDA_IO"])
        self.assertEqual(C.mobicuda_last_error_where(), b"/absent.onnx")
        self.assertIn(b"io: /absent.onnx", C.mobicuda_last_error_text())
        options = cpu_options()
        options.precision = 77
        self.assertEqual(C.mobicuda_engine_load_onnx(b"m", None, ctypes.byref(options), ctypes.byref(engine)),
                         NUMBERS["MOBICUDA_INVALID_ARGUMENT"])
        self.assertIn(b"precision", C.mobicuda_last_error_message())

    def test_null_everywhere(self):
        """Every function with every argument 0 or NULL gives an error, or nothing where it gives nothing."""
        for name in FUNCTIONS:
            function = getattr(C, name)
            arguments = [None if kind not in TYPES.values() else 0 for kind in function.argtypes]
            result = function(*arguments)
            if function.argtypes and function.restype is ctypes.c_int32:
                self.assertEqual(result, NUMBERS["MOBICUDA_INVALID_ARGUMENT"], name)
                self.assertIn(b"is NULL", C.mobicuda_last_error_message(), name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
