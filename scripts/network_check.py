"""The stage `networks` of scripts/gpu_check: latency of every network of models/zoo on both GPU implementations."""
import json
import pathlib
import re
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ZOO = ROOT / "models/zoo/networks.cpp"
RESULTS = ROOT / "bench/results"
UNKNOWN_SECONDS = 60

BATCHES = (1, 32)
IMPLEMENTATIONS = ("custom", "cudnn")
OTHERS = {"cudnn": "cuDNN", "pytorch": "PyTorch CUDA graph"}
# Those that torchvision has under the same name, for PyTorch.
TORCHVISION = ("vgg16", "vgg19", "squeezenet1_1", "resnet50", "resnet152", "resnext101_64x4d", "densenet201",
               "inception_v3", "mobilenet_v3_large", "efficientnet_b0")
# The networks of depthwise convolutions are what the custom engine is made for.
NEIGHBOURS = ("mobilenet_v1", "mobilenet_v3_large", "efficientnet_b0")
# Batch: least speed-up against cudnn for neighbours, and for the others.
LEAST_SPEED_UP = {1: (1.0, 0.8), 32: (1.2, 0.7)}
# Each may be 1e-2 from the exact logits: docs/numerics.md.
MOST_DIFFERENT = 2e-2


def names(check):
    """All networks that mobicuda_write_model can write."""
    code, output = check.run([check.program("models/mobicuda_write_model"), "--listNetworks"], check.log("networks"))
    if code != 0:
        raise SystemExit(f"mobicuda_write_model --listNetworks: exit code {code}")
    listed = re.findall(r"^\s*([a-z0-9_]+)\s", output, re.MULTILINE)
    return [name for name in listed if name not in ("name", "mobilenet_v2")]  # MobileNetV2 has a stage of its own


def zoo():
    """The same names where there is no build."""
    return re.findall(r'Entry\{\{"([a-z0-9_]+)"', ZOO.read_text(encoding="utf-8"))


def why_refused(output):
    """bench_engine's reason, or None where it failed otherwise."""
    found = re.search(r"unsupported: .*", output)
    return found and found.group(0)


def measure(check, name, model):
    """Results of all implementations that run the network, timed interleaved where all do; None where one failed."""
    measured = {"results": [], "refused": {}}
    options = ["--precision", "fp16", "--model", model, "--batch", ",".join(map(str, BATCHES)), "--duration",
               str(check.arguments.network_duration), "--warmUp", "50"]
    report, output = check.report(f"network_{name}", "--impl", ",".join(IMPLEMENTATIONS), *options)
    reports = [report] if report else []
    if not report:
        for implementation in IMPLEMENTATIONS:
            report, output = check.report(f"network_{name}", "--impl", implementation, *options)
            if report:
                reports.append(report)
            elif why_refused(output):
                measured["refused"][implementation] = why_refused(output)
            else:
                check.fail(f"bench_engine for {name} on {implementation}: {output[-300:]}")
                return None
    for result in (result for report in reports for result in report["results"]):
        comparison = result["comparison"]
        measured["results"].append({"impl": result["impl"], "batch": result["batch"],
                                    "medianUs": 1e3 * result["latencyMs"]["median"], "compileMs": result["compileMs"],
                                    "relativeL2ToCustom": comparison and comparison["relativeL2"]})
    return measured


def expected_seconds(name):
    """What a network took in a record of bench/results; most of it is cudnn's search, on whatever GPU."""
    taken = [network["seconds"] for record in RESULTS.glob("*.json")
             for known, network in (json.loads(record.read_text(encoding="utf-8")).get("networks") or {}).items()
             if known == name and "seconds" in network]
    return max(taken, default=UNKNOWN_SECONDS)


def run(check):
    """Measures the chosen networks, and keeps what earlier calls measured of the others."""
    everything = names(check)
    record = check.record.setdefault("networks", {})
    for name in check.arguments.networks or everything:
        if check.arguments.missing and name in record:
            continue
        start = time.monotonic()
        if check.time_left() < expected_seconds(name):
            print(f"   {name}: left to a later call, {expected_seconds(name):.0f} s would pass --time-limit", flush=True)
            continue
        model = check.out / f"{name}.onnx"
        check.run([check.program("models/mobicuda_write_model"), "--output", model, "--network", name],
                  check.log("networks"))
        record.pop(name, None)
        measured = measure(check, name, model)
        model.unlink(missing_ok=True)  # up to half a gigabyte
        if not measured:
            continue
        seconds = time.monotonic() - start
        record[name] = {**measured, "seconds": round(seconds, 1)}
        times = [f"{row['impl']} batch {row['batch']} {row['medianUs']:.1f} us" for row in measured["results"]]
        refusals = [f"{implementation} refuses it" for implementation in measured["refused"]]
        print(f"   {name}: {seconds:.0f} s:", ", ".join(times + refusals), flush=True)
        check.save()
    # In the order of the list, whatever the order of the calls.
    check.record["networks"] = {name: record[name] for name in everything if name in record}
    check.unfinished += ["networks"] * any(name not in record for name in everything)


def place(row):
    """Of a row of PyTorch's results in the list of its networks; at the end what is of none."""
    return TORCHVISION.index(row["network"]) if row.get("network") in TORCHVISION else len(TORCHVISION)


def run_peers(check, earlier):
    """PyTorch's document for the chosen networks that torchvision has. `earlier` is that of an earlier call or None; what it
    says of other networks is kept."""
    chosen = check.arguments.networks or TORCHVISION
    kept = {key: (earlier or {}).get(key, []) for key in ("results", "failed")}
    measured = {(row["network"], row["batch"]) for row in kept["results"]}
    wanted = [name for name in TORCHVISION if name in chosen
              and not (check.arguments.missing and all((name, batch) in measured for batch in BATCHES))]
    if not wanted:
        return earlier
    document = check.peer("pytorch", "--modes", "graph", "--precisions", "fp16", "--batches", ",".join(map(str, BATCHES)),
                          "--networks", ",".join(wanted))
    for key, rows in kept.items():
        of_others = [row for row in rows if row.get("network") in set(TORCHVISION) - set(wanted)]
        document[key] = sorted(document[key] + of_others, key=place)
    return document


def latencies(record, name):
    """{(implementation, batch): microseconds}."""
    times = {(row["impl"], row["batch"]): row["medianUs"] for row in record["networks"][name]["results"]}
    peers = (record.get("peers") or {}).get("pytorchNetworks") or {"results": []}
    times.update({("pytorch", row["batch"]): row["median_us"] for row in peers["results"] if row["network"] == name})
    return times


def requirements(record, add):
    """Calls add(name, target, measured, met) for each."""
    for name, network in (record.get("networks") or {}).items():
        for implementation, reason in network["refused"].items():
            add(f"{name} on {implementation}", "runs", reason[:160], False)
        for row in network["results"]:
            difference = row["relativeL2ToCustom"]
            if difference is not None:
                add(f"{name}: {row['impl']} against custom, fp16 logits, batch {row['batch']}", f"<= {MOST_DIFFERENT}",
                    f"{difference:.1e}", difference <= MOST_DIFFERENT)
        times = latencies(record, name)
        for batch, (neighbour, other) in LEAST_SPEED_UP.items():
            least = neighbour if name in NEIGHBOURS else other
            custom, cudnn = times.get(("custom", batch)), times.get(("cudnn", batch))
            if custom and cudnn:
                add(f"{name}: custom against cudnn, fp16, batch {batch}", f">= {least}x",
                    f"{cudnn / custom:.2f}x ({custom:.1f} / {cudnn:.1f} us)", cudnn >= least * custom)
