"""What must hold of the numbers that scripts/gpu_check records; each with the numbers that decide it."""
import statistics

import gpu_floors
import gpu_int8
import gpu_pictures
import gpu_python
import gpu_serving
import gpu_shapes
import gpu_split
import gpu_stress
import gpu_sustained
import network_check
import peer_results

REPEATS = 5  # processes of the stage repeat


def case_of(result):
    """The name of a case of bench_engine: "custom fp16 batch 8"."""
    return f"{result['impl']} {result['precision']} batch {result['batch']}"


def rows(record, batches):
    """[{name, target, measured, met}] for what the record has."""
    found = []

    def add(name, target, measured, met):
        found.append({"name": name, "target": target, "measured": measured, "met": bool(met)})

    latency = {(r["impl"], r["precision"], r["batch"]): 1e3 * r["latencyMs"]["median"]
               for r in record.get("latency") or []}
    peers = peer_results.rows(record, peer_results.PYTORCH)
    add_comparisons(latency, peers, batches, add)
    add_latencies(latency, peers, add)
    add_pictures(record, add)
    add_memory(record, add)
    network_check.requirements(record, add)
    network_check.dense_requirements(record, add)
    add_accuracy(record, add)
    for name in ("custom", "cudnn"):
        counts = (record.get("conformance") or {}).get(name)
        if counts:
            add(f"ONNX's test models, {name}", "0 failed", f"{counts['failed']} of {counts['cases']}",
                counts["failed"] == 0)
    if "sanitizer" in record:
        clean = sum(r["exit"] == 0 for r in record["sanitizer"])
        add("compute-sanitizer, four tools", "0 reports", f"{clean} of {len(record['sanitizer'])} runs clean",
            clean == len(record["sanitizer"]))
    gpu_stress.requirements(record, add)
    add_start(record, add)
    add_clock(record, add)
    add_repeats(record, add)
    add_layers(record, add)
    gpu_floors.requirements(record, batches, add)
    gpu_sustained.requirements(record, add)
    gpu_shapes.requirements(record, add)
    gpu_int8.requirements(record, add)
    gpu_split.requirements(record, add)
    gpu_pictures.requirements(record, add)
    gpu_serving.requirements(record, add)
    gpu_python.requirements(record, add)
    return found


def add_comparisons(latency, peers, batches, add):
    for precision in ("fp16", "fp32", "fp64"):
        graph = peer_results.fastest(peers, peer_results.GRAPH, precision)
        for batch in batches:
            cudnn, custom = latency.get(("cudnn", precision, batch)), latency.get(("custom", precision, batch))
            if cudnn and batch in graph:
                peer, which = graph[batch]["median_us"], peer_results.variant(graph[batch], "graph")
                add(f"cudnn / PyTorch CUDA graph, {precision}, batch {batch}", "<= 1.0",
                    f"{cudnn / peer:.3f} ({cudnn:.1f} / {peer:.1f} us{which and ', ' + which})", cudnn <= peer)
            if cudnn and custom:
                add(f"custom against cudnn, {precision}, batch {batch}", "faster",
                    f"{cudnn / custom:.2f}x ({custom:.1f} / {cudnn:.1f} us)", custom < cudnn)


def add_latencies(latency, peers, add):
    compiled = peer_results.fastest(peers, peer_results.COMPILED, "fp16")

    def add_latency(precision, batch, most):
        custom = latency.get(("custom", precision, batch))
        if custom:
            add(f"custom {precision} batch {batch}", f"<= {most} us", f"{custom:.1f} us", custom <= most)

    def add_rate(precision, batch, least):
        custom = latency.get(("custom", precision, batch))
        if custom:
            rate = batch * 1e6 / custom
            add(f"custom {precision} batch {batch}", f">= {least:,} img/s", f"{rate:,.0f} img/s", rate >= least)

    def add_ratio(batch, least):
        custom = latency.get(("custom", "fp16", batch))
        others = [("cudnn", latency.get(("cudnn", "fp16", batch)), "")]
        if batch in compiled:
            which = peer_results.variant(compiled[batch], "compile")
            others.append(("torch.compile", compiled[batch]["median_us"], which and f" ({which})"))
        for name, peer, which in others:
            if custom and peer:
                add(f"custom against {name}, fp16, batch {batch}", f">= {least}x", f"{peer / custom:.2f}x{which}",
                    peer >= least * custom)

    add_latency("fp16", 1, 70)
    add_latency("fp16", 8, 150)
    add_latency("fp32", 1, 150)
    add_rate("fp16", 32, 100000)
    add_rate("fp16", 256, 130000)
    add_rate("fp32", 256, 35000)
    add_ratio(1, 4)
    for batch in (32, 128, 256):
        add_ratio(batch, 2.5)


def add_pictures(record, add):
    for r in record.get("pictures") or []:
        device, host = 1e3 * r["deviceMs"]["median"], 1e3 * r["hostMs"]["median"]
        if r["batch"] == 1:
            add("host-visible latency, custom fp16 batch 1, uint8 picture in, logits out", "<= GPU time + 25 us",
                f"{device:.1f} + {host - device:.1f} us", host - device <= 25)
            used = r["gpuMemoryUsedBytes"] / 1e6
            add("GPU memory beside the CUDA context, custom fp16 batch 1", "<= 16 MB", f"{used:.1f} MB", used <= 16)
        if r["batch"] == 256:
            streamed, resident = r["streamedPicturesPerSecond"] or 0.0, 1e3 * r["batch"] / r["deviceMs"]["mean"]
            add("uint8 pictures from the host, custom fp16 batch 256, against input on the device", ">= 85 %",
                f"{100 * streamed / resident:.0f} % ({streamed:,.0f} / {resident:,.0f} img/s)",
                streamed >= 0.85 * resident)


def add_memory(record, add):
    fused = [r for r in record.get("latency") or []
             if (r["impl"], r["precision"], r["batch"]) == ("custom", "fp16", 256)]
    if fused and "layerByLayer" in record:
        arena = fused[0]["memoryBytes"]["arena"]
        layers = record["layerByLayer"]["memoryBytes"]["arena"]
        add("activation memory, fp16, batch 256, against the layer-by-layer plan", "<= 40 %",
            f"{100 * arena / layers:.0f} % ({arena / 1e6:.0f} / {layers / 1e6:.0f} MB)", arena <= 0.4 * layers)


def add_accuracy(record, add):
    accuracy = record.get("accuracy")
    if not accuracy:
        return
    fp32_top1 = next(r["top1"] for r in accuracy["results"] if r["impl"] == "cpu")
    for r in accuracy["results"]:
        label = f"{r['impl']} {r['precision']}"
        reference = r["withReferenceLogits"]
        if r["precision"] == "fp32":
            add(f"{label} against reference logits", "max <= 1e-3, top-1 equal on all",
                f"max {reference['maxAbs']:.2e}, {reference['top1Equal']} of {reference['pictures']}",
                reference["maxAbs"] <= 1e-3 and reference["top1Equal"] == reference["pictures"])
        else:
            points = 100 * abs(r["top1"] - fp32_top1)
            add(f"{label} against reference logits", "top-1 equal >= 99 %, accuracy within 0.4 points",
                f"{100 * reference['top1Agreement']:.1f} %, {points:.2f} points",
                reference["top1Agreement"] >= 0.99 and points <= 0.4)


def add_start(record, add):
    first = [r for r in record.get("latency") or []
             if (r["impl"], r["precision"], r["batch"]) == ("custom", "fp16", 1)]
    if first and "model" in record:
        total = record["model"]["importMs"] + first[0]["compileMs"] + first[0]["sessionMs"] + first[0]["firstRunMs"]
        add(f"ONNX file of {record['model']['bytes'] / 1e6:.1f} MB to first result, CUDA context excluded",
            "<= 500 ms", f"{total:.0f} ms", total <= 500)


def add_clock(record, add):
    for r in record.get("outsideClock") or []:
        off = r["benchMs"] / r["outsideMs"] - 1
        add(f"bench_engine against CUDA events around the library's call, custom {r['precision']} batch {r['batch']}",
            "within 2 %", f"{100 * off:+.2f} % ({1e3 * r['benchMs']:.1f} / {1e3 * r['outsideMs']:.1f} us)",
            abs(off) <= 0.02)
        if "wallMs" in r:
            off = r["benchMeanMs"] / r["wallMs"] - 1
            add(f"bench_engine against the host's clock over runs in a row, custom {r['precision']} batch {r['batch']}",
                "within 1 %", f"{100 * off:+.2f} % ({1e3 * r['benchMeanMs']:.1f} / {1e3 * r['wallMs']:.1f} us)",
                abs(off) <= 0.01)


def add_repeats(record, add):
    for of_one in (record.get("repeat") or {}).values():
        for case, medians in of_one["cases"].items():
            middle = statistics.median(medians)
            add(f"repeated: {case}", f"range over {REPEATS} processes",
                f"{middle:.1f} us, {min(medians):.1f} to {max(medians):.1f} us ({100 * (max(medians) - min(medians)) / middle:.1f} %), "
                f"{len(medians)} processes", len(medians) >= REPEATS)


def add_layers(record, add):
    latency = record.get("latency") or []
    for name in ("custom", "cudnn"):
        of_one = [r for r in latency if r["impl"] == name]
        add_worst(f"layers as run, added up, against the latency, {name}", [
            (r["asRunProfile"]["sumMs"] / r["deviceMs"]["median"], f"{r['precision']} batch {r['batch']}")
            for r in of_one if r.get("asRunProfile")], add)
        add_worst(f"layers as run, added up, against whole runs in between, {name}", [
            (r["asRunProfile"]["sumMs"] / r["asRunProfile"]["wholeMs"], f"{r['precision']} batch {r['batch']}")
            for r in of_one if r.get("asRunProfile")], add)
        # The sum is the whole by construction; layers told apart wrongly would show as less than nothing.
        least = [(min(layer["asRunMs"] for layer in r["layers"]) / r["deviceMs"]["median"], f"{r['precision']} batch {r['batch']}")
                 for r in of_one if r.get("asRunProfile")]
        if least:
            share, case = min(least)
            add(f"layers as run, the shortest of {len(least)} runs, {name}", ">= -1 % of the latency",
                f"{100 * share:+.2f} % ({case})", share >= -0.01)
        add_worst(f"layers one by one, added up, against a run of that kind, {name}", [
            (r["serializedProfile"]["ratio"], f"{r['precision']} batch {r['batch']}")
            for r in of_one if r.get("serializedProfile")], add)
    add_worst("layers as run, added up, against whole runs in between, networks", network_check.layer_sums(record), add)


def add_worst(name, ratios, add):
    """Of [(ratio, case)] that which is farthest from 1."""
    if ratios:
        ratio, case = max(ratios, key=lambda one: abs(one[0] - 1))
        add(f"{name}, the worst of {len(ratios)}", "within 5 %", f"{100 * (ratio - 1):+.1f} % ({case})", abs(ratio - 1) <= 0.05)
