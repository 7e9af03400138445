"""The stage `networks` of scripts/gpu_check: latency of every network of models/zoo on both GPU implementations."""
import json
import math
import pathlib
import re
import time

import peer_results

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZOO = ROOT / "models/zoo/networks.cpp"
RESULTS = ROOT / "bench/results"
UNKNOWN_SECONDS = 60

BATCHES = (1, 8, 32)
IMPLEMENTATIONS = ("custom", "cudnn")
OTHERS = {"cudnn": "cuDNN", "pytorch": "PyTorch CUDA graph"}
PEERS = "pytorchNetworks"  # PyTorch's document in record["peers"]
# Those that torchvision has under the same name, for PyTorch.
TORCHVISION = ("vgg16", "vgg19", "squeezenet1_1", "resnet50", "resnet152", "resnext101_64x4d", "densenet201",
               "inception_v3", "mobilenet_v3_large", "efficientnet_b0")
# The networks of depthwise convolutions are what the custom engine is made for.
NEIGHBOURS = ("mobilenet_v1", "mobilenet_v3_large", "efficientnet_b0")
# Batch: least speed-up against cudnn for neighbours, and for the others.
LEAST_SPEED_UP = {1: (1.0, 0.8), 32: (1.2, 0.7)}
# Each may be 1e-2 from the exact logits: docs/numerics.md.
MOST_DIFFERENT = 2e-2
# Of dense networks, the others.
DENSE_BATCH = 32
LEAST_DENSE_MEAN = 1.08
MOST_US_ALONE = {"resnet50": 190, "vgg16": 262}  # at batch 1


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
               str(check.arguments.network_duration), "--warmUp", "50", "--dumpProfile"]
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
    measured["results"] = [short(result) for report in reports for result in report["results"]]
    return measured


def short(result):
    """What the record keeps of a result of bench_engine: layers of custom only."""
    latency, comparison = result["latencyMs"], result["comparison"]
    row = {"impl": result["impl"], "batch": result["batch"], "medianUs": 1e3 * latency["median"],
           "minUs": 1e3 * latency["min"], "p90Us": 1e3 * latency["p90"], "variation": latency["variation"],
           "asRunSumUs": 1e3 * result["asRunProfile"]["sumMs"], "asRunWholeUs": 1e3 * result["asRunProfile"]["wholeMs"],
           "compileMs": result["compileMs"],
           "relativeL2ToCustom": comparison and comparison["relativeL2"]}
    if result["impl"] == "custom":
        row["layers"] = [{"name": layer["name"], "kernel": layer["kernel"], "asRunUs": round(1e3 * layer["asRunMs"], 3)}
                         for layer in result["layers"]]
    return row


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


def run_peers(check):
    """PyTorch's document for the chosen networks that torchvision has; what an earlier call says of others is kept."""
    documents = check.record["peers"]
    earlier = documents.get(PEERS) or {}
    measured = {(row["network"], row["batch"]) for row in earlier.get("results", [])}
    unfinished = {row.get("network") for key in ("failed", "left") for row in earlier.get(key, [])}

    def whole(name):
        return name not in unfinished and all((name, batch) in measured for batch in BATCHES)

    chosen = [name for name in TORCHVISION if name in (check.arguments.networks or TORCHVISION)]
    if check.arguments.missing:
        wanted = [name for name in chosen if not whole(name)]
    else:
        wanted = chosen
        for key in ("results", "failed", "left"):
            earlier = {**earlier, key: [row for row in earlier.get(key, []) if row.get("network") not in chosen]}
    if not wanted:
        return
    check.measure_peer(PEERS, "pytorch", earlier if earlier.get("results") else None, "--modes", "graph", "--precisions",
                       "fp16", "--batches", ",".join(map(str, BATCHES)), "--networks", ",".join(wanted))
    for key in ("results", "failed"):
        documents.get(PEERS, {}).get(key, []).sort(key=place)  # it is not there where the time was too short


def fastest_peers(record, name):
    """{batch: row} of PyTorch."""
    document = (record.get("peers") or {}).get(PEERS) or {"results": []}
    rows = [row for row in document["results"] if row["network"] == name]
    return peer_results.fastest(rows, peer_results.GRAPH, "fp16")


def latencies(record, name):
    """{(implementation, batch): microseconds}; of PyTorch's memory formats the fastest."""
    times = {(row["impl"], row["batch"]): row["medianUs"] for row in record["networks"][name]["results"]}
    times.update({("pytorch", batch): row["median_us"] for batch, row in fastest_peers(record, name).items()})
    return times


def layer_sums(record):
    """[(sum of the layers as run / whole runs in between, which network and batch)] of what was measured. Not the latency:
    what needs all the power there is has another clock alone than beside another implementation."""
    return [(row["asRunSumUs"] / row["asRunWholeUs"], f"{row['impl']}, {name}, batch {row['batch']}")
            for name, network in (record.get("networks") or {}).items() for row in network["results"] if "asRunWholeUs" in row]


def dense_times(record):
    """{network: {(implementation, batch): microseconds}} of dense networks, whose rows are "speed:": of a call of its own where the
    record has one, else of the stage."""
    apart = record.get("dense")
    if apart:
        return {name: {(row["impl"], row["batch"]): row["us"] for row in rows} for name, rows in apart.items()}
    return {name: latencies(record, name) for name in record.get("networks") or {} if name not in NEIGHBOURS}


def dense_requirements(record, add):
    """Calls add(name, target, measured, met) for each dense network, and for all of them together."""
    times = dense_times(record)
    ratios = []
    for name, of_network in times.items():
        custom, cudnn = (of_network.get((implementation, DENSE_BATCH)) for implementation in ("custom", "cudnn"))
        if custom and cudnn:
            ratios.append(cudnn / custom)
            add(f"speed: {name}, fp16 batch {DENSE_BATCH}, against cudnn", ">= 1.0x",
                f"{ratios[-1]:.2f}x ({custom:.1f} / {cudnn:.1f} us)", custom <= cudnn)
    if ratios:
        mean = math.prod(ratios) ** (1 / len(ratios))
        add(f"speed: {len(ratios)} dense networks, fp16 batch {DENSE_BATCH}, against cudnn, geometric mean", f">= {LEAST_DENSE_MEAN}x",
            f"{mean:.2f}x", mean >= LEAST_DENSE_MEAN)
    for name, most in MOST_US_ALONE.items():
        us = times.get(name, {}).get(("custom", 1))
        if us:
            add(f"speed: {name}, fp16 batch 1", f"<= {most} us", f"{us:.1f} us", us <= most)


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
