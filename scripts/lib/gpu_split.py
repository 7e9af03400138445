"""The stage `split` of scripts/gpu_check: MobileNetV2 in fp32_split beside itself in exact fp32, and both on pictures."""

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MOST_US = {1: 70, 8: 190, 32: 480, 256: 2500}
MOST_US_EXACT = {1: 78, 8: 250, 32: 780, 256: 5000}
MOST_RELATIVE_L2 = 5e-6  # of the logits
SAME = 1.01              # at few images both have the same kernels


def times(report, precision):
    return [{"batch": result["batch"], "us": round(1e3 * result["deviceMs"]["median"], 2)}
            for result in report["results"] if result["precision"] == precision]


def run(check):
    check.record["split"] = None
    data = check.shared / "data"
    report = check.bench_engine("split", "--impl", "custom", "--precision", "fp32,fp32_split", "--batch",
                                ",".join(map(str, BATCHES)), "--duration", "0.5", *check.timed_input(), "--model", check.model())
    found = report and {"times": times(report, "fp32_split"), "fp32": times(report, "fp32")}
    if check.real_model().exists() and (data / "imagenet_sample").is_dir():
        pictures = check.bench_engine(
            "split", "--impl", "custom", "--precision", "fp32,fp32_split", "--model", check.real_model(), "--batch", "50",
            "--duration", "0.05", "--warmUp", "10", "--images", data / "imagenet_sample", "--labels", data / "synsets.txt",
            "--preprocess", "tf", "--referenceLogits", data / "reference_logits_fp32.f32", "--referenceList",
            data / "reference_labels.txt")
        found = found and pictures and {**found, "pictures": pictures_of(pictures)}
    else:
        print(f"== split: no real model and pictures below {check.shared}: accuracy left out")
    if found:
        check.record["split"] = found
    else:
        check.fail("split")


def pictures_of(report):
    keys = ("precision", "top1", "withReference", "withReferenceLogits")
    return [{key: result[key] for key in keys if key in result} for result in report["images"]["results"]]


def requirements(record, add):
    """Calls add(name, target, measured, met) for what was measured."""
    found = record.get("split")
    if not found:
        return
    exact = {row["batch"]: row["us"] for row in found["fp32"]}
    for batch, most in MOST_US_EXACT.items():
        if batch in exact:
            add(f"speed: fp32 batch {batch}", f"<= {most} us", f"{exact[batch]:.1f} us", exact[batch] <= most)
    for row in found["times"]:
        batch, us = row["batch"], row["us"]
        if batch in MOST_US:
            add(f"speed: fp32_split batch {batch}", f"<= {MOST_US[batch]} us", f"{us:.1f} us", us <= MOST_US[batch])
        add(f"speed: fp32_split against fp32, batch {batch}", "faster, or equal within 1 %",
            f"{exact[batch] / us:.2f}x ({us:.1f} / {exact[batch]:.1f} us)", us <= SAME * exact[batch])
    for result in found.get("pictures", []):
        if result["precision"] != "fp32_split":
            continue
        own, reference = result["withReference"], result["withReferenceLogits"]
        add("speed: fp32_split against exact fp32, real pictures", "top-1 equal on all",
            f"{own['top1Equal']} of {own['pictures']}", own["top1Equal"] == own["pictures"])
        add("speed: fp32_split, logits against the reference", f"relative L2 <= {MOST_RELATIVE_L2:.0e}",
            f"{reference['relativeL2']:.1e}", reference["relativeL2"] <= MOST_RELATIVE_L2)
