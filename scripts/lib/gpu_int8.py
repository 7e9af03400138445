"""The stage `int8` of scripts/gpu_check: the real MobileNetV2 in int8, beside itself in fp16, and what both engines make of
pictures; ResNet-50 and MobileNetV2 of other widths and sizes, quantised here, beside themselves in fp16."""
import pathlib

QUANTIZE = pathlib.Path(__file__).resolve().parents[1] / "quantize"

MODEL = "models/mobilenetv2_imagenet_int8_qdq.onnx"  # below --shared
LOGITS = "data/reference_logits_int8_qdq.f32"        # ONNX Runtime's
BATCHES = (1, 8, 32, 128, 256)
MOST_US = {1: 44, 8: 80, 32: 145}
LEAST_AGREEMENT = 0.99  # of top-1 with ONNX Runtime's
# Quantised here, on so many pictures. Widths and sizes of MobileNetV2 are neighbours of the shapes' table.
CALIBRATE = 12
RESNET_BATCHES = (1, 8, 32, 128)
LEAST_RESNET = (128, 45000)  # batch, images a second
SHAPES = ((0.5, 224), (1.4, 224), (1.0, 160), (1.0, 320))
SHAPE_BATCHES = (1, 8, 32, 128)
WITHIN = 1.03  # of fp16's time


def times(report):
    return [{"batch": result["batch"], "us": round(1e3 * result["deviceMs"]["median"], 2)} for result in report["results"]]


def quantised(check, name, *options):
    """A network of models/zoo and what scripts/quantize makes of it; None where that cannot be."""
    model, int8 = check.out / f"{name}.onnx", check.out / f"{name}_int8.onnx"
    log = check.log("int8")
    if check.run([check.program("models/mobicuda_write_model"), "--output", model, *options], log)[0] != 0:
        check.fail(f"int8: {name}")
        return None
    code, output = check.run([check.arguments.python, QUANTIZE, model, check.picture_folder(), "-o", int8, "--calibrate", CALIBRATE,
                              "--evaluate", 0], log)
    if code != 0 and "needs the Python package" not in output:
        check.fail(f"int8: scripts/quantize of {name}")
    if code != 0:
        print(f"== int8: {name} is left out: {output[-300:]}")
        return None
    return model, int8


def both(check, name, batches, *options):
    """Times of a network in int8 and in fp16."""
    files = quantised(check, name, *options)
    if not files:
        return None
    fp16, int8 = (check.bench_engine("int8", "--impl", "custom", "--precision", "fp16", "--batch", ",".join(map(str, batches)),
                                     "--duration", "0.2", "--model", file) for file in files)
    return {"int8": times(int8), "fp16": times(fp16)} if int8 and fp16 else None


def run(check):
    data, model = check.shared / "data", check.shared / MODEL
    check.record["int8"] = None
    if not (model.exists() and check.real_model().exists() and (data / "imagenet_sample").is_dir()):
        print(f"== int8: no real models and pictures below {check.shared}: left out")
        return

    def measured(file):
        return check.bench_engine("int8", "--impl", "custom", "--precision", "fp16", "--batch", ",".join(map(str, BATCHES)),
                                  "--duration", "0.5", *check.timed_input(), "--model", file)

    int8, fp16 = measured(model), measured(check.real_model())
    pictures = check.bench_engine(
        "int8", "--impl", "cpu,custom", "--precision", "fp32", "--model", model, "--batch", "50", "--duration", "0.05",
        "--warmUp", "10", "--images", data / "imagenet_sample", "--labels", data / "synsets.txt", "--preprocess", "tf",
        "--referenceLogits", check.shared / LOGITS, "--referenceList", data / "reference_labels.txt")
    if int8 and fp16 and pictures:
        keys = ("impl", "top1", "withReference", "withReferenceLogits")
        check.record["int8"] = {"times": times(int8), "fp16": times(fp16),
                                "pictures": [{key: result[key] for key in keys if key in result}
                                             for result in pictures["images"]["results"]]}
        check.record["int8"]["resnet50"] = both(check, "resnet50", RESNET_BATCHES, "--network", "resnet50")
        check.record["int8"]["shapes"] = [
            {"width": width, "size": size, **found} for width, size in SHAPES
            if (found := both(check, f"mobilenet_v2_{width}_{size}", SHAPE_BATCHES, "--width", width, "--resolution", size))]
    else:
        check.fail("int8")


def requirements(record, add):
    """Calls add(name, target, measured, met) for what was measured."""
    found = record.get("int8")
    if not found:
        return
    fp16 = {row["batch"]: row["us"] for row in found["fp16"]}
    for row in found["times"]:
        batch, us = row["batch"], row["us"]
        if batch in MOST_US:
            add(f"int8: MobileNetV2, batch {batch}", f"<= {MOST_US[batch]} us", f"{us:.1f} us", us <= MOST_US[batch])
        add(f"int8: against fp16, batch {batch}", "faster or equal", f"{fp16[batch] / us:.2f}x ({us:.1f} / {fp16[batch]:.1f} us)",
            us <= fp16[batch])
    for result in found["pictures"]:
        reference = result["withReferenceLogits"]
        add(f"int8: {result['impl']} against ONNX Runtime's logits", f"top-1 equal >= {100 * LEAST_AGREEMENT:.0f} %",
            f"{reference['top1Equal']} of {reference['pictures']}", reference["top1Agreement"] >= LEAST_AGREEMENT)
        if result["impl"] == "custom":
            own = result["withReference"]
            add("int8: custom against the CPU engine, real pictures", "equal in every bit",
                f"at most {own['maxAbs']:.1e} apart on {own['pictures']}", own["maxAbs"] == 0)
    if found.get("resnet50"):
        batch, least = LEAST_RESNET
        for row, half in zip(found["resnet50"]["int8"], found["resnet50"]["fp16"]):
            rate = 1e6 * row["batch"] / row["us"]
            if row["batch"] == batch:
                add(f"int8: ResNet-50, batch {batch}", f">= {least} img/s", f"{rate:.0f} img/s", rate >= least)
            add(f"int8: ResNet-50 against fp16, batch {row['batch']}", "faster or equal",
                f"{half['us'] / row['us']:.2f}x ({row['us']:.1f} / {half['us']:.1f} us)", row["us"] <= half["us"])
    for shape in found.get("shapes", ()):
        for row, half in zip(shape["int8"], shape["fp16"]):
            add(f"int8: width {shape['width']}, {shape['size']} pixels, batch {row['batch']}", f"<= {WITHIN} of fp16's time",
                f"{row['us'] / half['us']:.2f} ({row['us']:.1f} / {half['us']:.1f} us)", row["us"] <= WITHIN * half["us"])
