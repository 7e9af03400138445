"""The stage `shapes` of scripts/gpu_check: MobileNetV2 of other widths, sizes and batches, fewer images than an engine is for,
the first load of a network whose kernels are compiled for it, and other networks that have inverted residuals."""
import contextlib
import os
import pathlib
import shutil

EXPORTER = pathlib.Path(__file__).resolve().parents[2] / "bench/peers/export_networks.py"

WIDTHS = (0.35, 0.5, 0.75, 1.0, 1.3, 1.4)
SIZES = (96, 128, 160, 192, 224, 256, 320)
BATCHES = (1, 8, 32, 128)
PRECISIONS = ("fp16", "fp32")
# Widths and sizes that cudnn is timed at, at every batch: six models, spread over the grid.
CUDNN = ((0.35, 224), (0.5, 160), (0.75, 256), (1.0, 96), (1.0, 320), (1.4, 224))
MODEL_SECONDS = 30    # of a model before one has ended
CUDNN_SECONDS = 60
FEWER = (1, 2, 4, 8, 16, 32, 64, 128)  # images, on an engine for MOST
MOST = 256
FEWER_SECONDS = 60
DURATION = "0.15"

# us, fp16: of widths at 224 pixels, and of sizes at width 1.0.
MOST_US = {
    1: ({0.35: 43, 0.5: 44, 0.75: 45, 1.0: 44, 1.3: 58, 1.4: 60}, {96: 36, 128: 37, 160: 38, 192: 41, 256: 46, 320: 55}),
    128: ({0.35: 260, 0.5: 310, 0.75: 420, 1.3: 860, 1.4: 980}, {96: 130, 128: 190, 160: 280, 192: 390, 256: 680, 320: 1050}),
}
LEAST_SPEED_UP = {1: 3.0, 8: 2.3, 32: 2.3, 128: 2.3}  # against cudnn, fp16
STEP = 0.97       # more work may take so much of the time of less
WITHIN = 1.05     # fewer images on an engine for MOST, against an engine for so many
WEIGHTS = 1.5     # of an engine for MOST, against one of a single plan
FLOAT = ((0.5, 224), (1.4, 224), (1.0, 160), (1.0, 320))  # widths and sizes that fp32 is compared at, by their FLOPs
FLOAT_WITHIN = 1.25
FLOAT_MOST_US = 120  # at batch 1
LOADED_WIDTH = 0.5   # of a MobileNetV2 that has no kernels in the library
# What is loaded how, seconds at most: on all cores and on two, and beyond the library's own kernels.
LOADS = {"cold cache, all cores": 15.0, "cold cache, 2 cores": 90.0, "warm cache": 0.3}
LOAD_SECONDS = 110  # of all loads
# Other networks (bench/peers/export_networks.py), fp16, against cudnn.
OTHERS = ("mobilenet_v3_small", "mobilenet_v3_large", "efficientnet_b0", "efficientnet_lite0", "mnasnet0_5", "mnasnet1_3", "fbnetc",
          "mobilenetv4_conv_small")
OTHERS_SPEED_UP = {1: 2.5, 32: 2.0}
OTHER_SECONDS = 50


def models():
    """The must's first: 224 pixels of every width, every size of width 1.0, then the others."""
    first = [(width, 224) for width in WIDTHS] + [(1.0, size) for size in SIZES if size != 224]
    return first + [(width, size) for width in WIDTHS for size in SIZES if (width, size) not in first]


def model_file(check, width, size):
    file = check.out / f"mobilenet_v2_{width}_{size}.onnx"
    if not file.exists():
        code, output = check.run([check.program("models/mobicuda_write_model"), "--output", file, "--width", width,
                                  "--resolution", size], check.log("shapes"))
        if code != 0:
            raise SystemExit(f"mobicuda_write_model: exit code {code}: {output[-300:]}")
    return file


def times(report, **more):
    return [{**more, "impl": result["impl"], "precision": result["precision"], "batch": result["batch"],
             "us": round(1e3 * result["deviceMs"]["median"], 2), "compileMs": round(result["compileMs"]),
             "weightBytes": result["memoryBytes"]["weights"], "flops": report["model"]["flopsPerPicture"]}
            for result in report["results"]]


@contextlib.contextmanager
def cores(count):
    """At most so many for the programs started within; None: all."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run(check):
    """Measures model by model; with --missing those that the record lacks, with --time-limit as many as there is time for."""
    shapes = check.record.setdefault("shapes", {})
    if not check.arguments.missing:
        shapes.clear()
    grid = shapes.setdefault("grid", [])
    fewer = shapes.setdefault("fewer", [])

    def measure(done, seconds, into, options, **more):
        if done:
            return
        if check.time_left() < seconds:
            check.unfinished.append("shapes")
            return
        report = check.bench_engine("shapes", "--duration", DURATION, "--warmUp", "50", *options)
        if report:
            into.extend(times(report, **more))
            check.save()
        else:
            check.unfinished.append("shapes")

    for implementation, precisions, wanted, seconds in (("custom", PRECISIONS, models(), MODEL_SECONDS),
                                                        ("cudnn", ("fp16",), CUDNN, CUDNN_SECONDS)):
        for width, size in wanted:
            known = any((row["impl"], row["width"], row["size"]) == (implementation, width, size) for row in grid)
            measure(known, seconds, grid, ["--impl", implementation, "--precision", ",".join(precisions), "--batch",
                                           ",".join(map(str, BATCHES)), "--model", model_file(check, width, size)],
                    width=width, size=size)
        if implementation == "custom":
            for engine in (MOST, None):
                known = any(row["engine"] == engine for row in fewer)
                measure(known, FEWER_SECONDS, fewer,
                        ["--impl", "custom", "--precision", ",".join(PRECISIONS), "--batch", ",".join(map(str, FEWER)),
                         "--model", model_file(check, 1.0, 224), *(["--maxBatch", engine] if engine else [])], engine=engine)
            run_loads(check, shapes.setdefault("loads", []), measure)
    run_others(check, shapes.setdefault("others", []), measure)


def run_loads(check, loads, measure):
    """How long an engine for MOST images takes to compile: with the library's kernels, with an empty cache of kernels, a full one.
    All in one call, as the cache may not outlive it."""
    cache = check.out / "kernels"
    ways = (("library's kernels", None, ["--specialise", "never"]),
            ("cold cache, 2 cores", 2, ["--codeCache", cache]),
            ("cold cache, all cores", None, ["--codeCache", cache]),
            ("warm cache", None, ["--codeCache", cache]))
    if len(loads) == len(ways):
        return
    if check.time_left() < LOAD_SECONDS:
        check.unfinished.append("shapes")
        return
    loads.clear()
    for name, count, options in ways:
        if name.startswith("cold"):
            shutil.rmtree(cache, ignore_errors=True)
        with cores(count):
            measure(False, 0, loads,
                    ["--impl", "custom", "--precision", "fp16", "--batch", "1", "--maxBatch", MOST, "--model",
                     model_file(check, LOADED_WIDTH, 224), *options], load=name)


def network_file(check, network):
    """None where it cannot be written."""
    file = check.out / "networks" / f"{network}.onnx"
    if not file.exists():
        code, output = check.run([check.arguments.python, EXPORTER, "--output", file.parent, "--networks", network],
                                 check.log("shapes"))
        if code != 0:
            print(f"   {network} is not measured: {output[-300:].strip()}")
            return None
    return file


def run_others(check, others, measure):
    for network in OTHERS:
        for implementation in ("custom", "cudnn"):
            known = any((row["network"], row["impl"]) == (network, implementation) for row in others)
            file = None
            if not known and check.time_left() >= OTHER_SECONDS:
                file = network_file(check, network)
                if file is None:
                    check.unfinished.append("shapes")
                    break
            measure(known, OTHER_SECONDS, others, ["--impl", implementation, "--precision", "fp16", "--batch",
                                                   ",".join(map(str, OTHERS_SPEED_UP)), "--model", file], network=network)


def requirements(record, add):
    """Calls add(name, target, measured, met) for what was measured."""
    shapes = record.get("shapes") or {}
    found = {(row["impl"], row["precision"], row["width"], row["size"], row["batch"]): row["us"] for row in shapes.get("grid", [])}

    def custom(width, size, batch, precision="fp16"):
        return found.get(("custom", precision, width, size, batch))

    for batch, (by_width, by_size) in MOST_US.items():
        for (width, size), most in {**{(width, 224): most for width, most in by_width.items()},
                                    **{(1.0, size): most for size, most in by_size.items()}}.items():
            if time := custom(width, size, batch):
                add(f"shapes: fp16 batch {batch}, width {width}, {size} pixels", f"<= {most} us", f"{time:.1f} us", time <= most)
    for (width, size) in CUDNN:
        for batch, least in LEAST_SPEED_UP.items():
            cudnn, own = found.get(("cudnn", "fp16", width, size, batch)), custom(width, size, batch)
            if cudnn and own:
                add(f"shapes: custom against cudnn, fp16, batch {batch}, width {width}, {size} pixels", f">= {least}x",
                    f"{cudnn / own:.2f}x ({own:.1f} / {cudnn:.1f} us)", cudnn >= least * own)
    slower = [case for case in found if case[0] == "custom" and case[1] == "fp16" and ("custom", "fp32", *case[2:]) in found
              and found[case] > found[("custom", "fp32", *case[2:])]]
    if found:
        points = len({case[2:] for case in found if case[0] == "custom"})
        add("shapes: every width, size and batch timed", str(len(WIDTHS) * len(SIZES) * len(BATCHES)), str(points),
            points == len(WIDTHS) * len(SIZES) * len(BATCHES))
        add("shapes: fp16 against fp32, every point", "never slower",
            f"{len(slower)} slower" + "".join(f", width {case[2]}, {case[3]} pixels, batch {case[4]}" for case in slower[:3]),
            not slower)
        down = list(steps_down(custom))
        add("shapes: more work is never faster, fp16", f"no step below {STEP:.0%}",
            f"{len(down)} steps" + "".join(f", {step}" for step in down[:3]), not down)
    add_float(shapes, custom, add)
    alone = {(row["precision"], row["batch"]): row["us"] for row in shapes.get("fewer", []) if row["engine"] is None}
    shared = {(row["precision"], row["batch"]): row["us"] for row in shapes.get("fewer", []) if row["engine"] == MOST}
    for precision in PRECISIONS:
        ratios = {batch: shared[precision, batch] / alone[precision, batch] for batch in FEWER
                  if (precision, batch) in shared and (precision, batch) in alone}
        if ratios:
            worst = max(ratios, key=ratios.get)
            add(f"shapes: n on an engine for {MOST} against one for n, {precision}", f"<= {WITHIN}x each",
                f"{ratios[worst]:.3f}x at {worst}, {len(ratios)} sizes", ratios[worst] <= WITHIN)
        weights = {row["engine"]: row["weightBytes"] for row in shapes.get("fewer", [])
                   if row["precision"] == precision and row["batch"] == max(FEWER)}
        if len(weights) == 2:
            add(f"shapes: weights of an engine for {MOST} against one of a single plan, {precision}", f"<= {WEIGHTS}x",
                f"{weights[MOST] / weights[None]:.2f}x ({weights[MOST] / 1e6:.2f} / {weights[None] / 1e6:.2f} MB)",
                weights[MOST] <= WEIGHTS * weights[None])
    add_loads(shapes, add)
    add_others(shapes, add)


def add_float(shapes, custom, add):
    flops = {(row["width"], row["size"]): row["flops"] for row in shapes.get("grid", [])}
    for batch in (1, max(BATCHES)):
        base = custom(1.0, 224, batch, "fp32")
        for shape in FLOAT:
            time = custom(*shape, batch, "fp32")
            if not time or not base:
                continue
            most = FLOAT_WITHIN * base * flops[shape] / flops[1.0, 224]
            most = min(most, FLOAT_MOST_US) if batch == 1 else most
            add(f"shapes: fp32 batch {batch}, width {shape[0]}, {shape[1]} pixels", f"<= {most:.0f} us", f"{time:.1f} us", time <= most)


def add_loads(shapes, add):
    seconds = {row["load"]: row["compileMs"] / 1e3 for row in shapes.get("loads", [])}
    if len(seconds) <= len(LOADS):  # these, and the library's kernels
        return
    for name, most in LOADS.items():
        time = seconds[name]
        if name == "warm cache":
            time -= seconds["library's kernels"]
        add(f"shapes: first load of width {LOADED_WIDTH}, engine for {MOST}, {name}",
            f"<= {most} s" + (" more than the library's kernels" if name == "warm cache" else ""), f"{time:.2f} s", time <= most)


def add_others(shapes, add):
    found = {(row["network"], row["impl"], row["batch"]): row["us"] for row in shapes.get("others", [])}
    for network in OTHERS:
        for batch, least in OTHERS_SPEED_UP.items():
            own, cudnn = found.get((network, "custom", batch)), found.get((network, "cudnn", batch))
            if own and cudnn:
                add(f"shapes: custom against cudnn, fp16, batch {batch}, {network}", f">= {least}x",
                    f"{cudnn / own:.2f}x ({own:.1f} / {cudnn:.1f} us)", cudnn >= least * own)


def steps_down(custom):
    """Where more of width, size or batch takes clearly less time: "width 0.5 to 0.75 at 224 pixels, batch 1: 54 to 50 us"."""
    for batch in BATCHES:
        for size in SIZES:
            for less, more in zip(WIDTHS, WIDTHS[1:]):
                yield from step(f"width {less} to {more} at {size} pixels, batch {batch}", custom(less, size, batch),
                                custom(more, size, batch))
        for width in WIDTHS:
            for less, more in zip(SIZES, SIZES[1:]):
                yield from step(f"{less} to {more} pixels at width {width}, batch {batch}", custom(width, less, batch),
                                custom(width, more, batch))
    for less, more in zip(BATCHES, BATCHES[1:]):
        for width in WIDTHS:
            for size in SIZES:
                yield from step(f"batch {less} to {more} at width {width}, {size} pixels", custom(width, size, less),
                                custom(width, size, more))


def step(what, less, more):
    if less and more and more < STEP * less:
        yield f"{what}: {less:.1f} to {more:.1f} us"
