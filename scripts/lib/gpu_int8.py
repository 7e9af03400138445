"""The stage `int8` of scripts/gpu_check: the real MobileNetV2 in int8, beside itself in fp16, and what both engines make of
pictures."""

MODEL = "models/mobilenetv2_imagenet_int8_qdq.onnx"  # below --shared
LOGITS = "data/reference_logits_int8_qdq.f32"        # ONNX Runtime's
BATCHES = (1, 8, 32, 128, 256)
MOST_US = {1: 44, 8: 80, 32: 145}
LEAST_AGREEMENT = 0.99  # of top-1 with ONNX Runtime's


def times(report):
    return [{"batch": result["batch"], "us": round(1e3 * result["deviceMs"]["median"], 2)} for result in report["results"]]


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
