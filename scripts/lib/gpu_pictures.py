"""The stage `pictures` of scripts/gpu_check: from JPEG files to labels (docs/pictures.md), and mobicuda_stream (docs/stream.md).

Needs the real pictures of --shared. Pictures of 500x375 are made from them while it runs, resized and encoded anew by pictures_bench;
10,000 files with broken ones among them are copies of them, written to --out."""
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time
import zlib

import gpu_programs

BENCH, STREAM, TESTS = "tests/pictures/pictures_bench", "stream/mobicuda_stream", "tests/pictures/pictures_gpu_tests"
LARGE = "500x375"
SECONDS = 2           # of a measurement
ROUNDS = 3            # nvJPEG alone and ours, in turns: a rate goes up and down by a tenth within seconds
# What pictures_bench is run with, beside everything by default.
WAYS = {"on the multiprocessors, batches of 1,024": ["--decode", "gpu-sms", "--batch", "1024"],
        "on the multiprocessors, batches of 512": ["--decode", "gpu-sms", "--batch", "512"], "exact colours": ["--colours", "exact"]}
OWN_BESIDE_PEERS = {"by default": [], "on the multiprocessors, batches of 1,024": WAYS["on the multiprocessors, batches of 1,024"]}
MIXED, BROKEN_EVERY = 10000, 20
KILLS = 20
KILLED_TIMES = 800    # how often each picture comes in the stream that is killed
STREAM_TIMES = 1000
MEMCHECK_SECONDS = 150
# Parts, and seconds that each may take: one that does not fit into --time-limit is left to a later call.
PARTS = {"bench": 150, "ways": 140, "stream": 60, "mixed": 60, "killed": 150, "noGpu": 60, "peers": 230, "memcheck": MEMCHECK_SECONDS}

LEAST = {"memory": 40000, "files": 35000}      # img/s
MOST_CORES = {"memory": 2.0, "files": 4.0}
LEAST_AGAINST_NVJPEG = 0.9
LEAST_AGAINST_LOADER = 8.0
MOST_LATENCY_MS = 1.2
LEAST_EQUAL, MOST_POINTS = 0.99, 0.4
LEAST_TWO_GPUS = 1.9
LEAST_STREAM = 0.9    # of one classifier's rate
LEAST_CORES_BUSY = 0.8  # without a GPU, of all
MEMORY_GROWTH = 1.05  # peak of four times as many pictures, beside a fixed share
MEMORY_SLACK = 64 << 20


def run(check):
    """Measures part by part; with --missing those that the record lacks."""
    if not check.picture_folder().is_dir() or not check.real_model().exists():
        print(f"== pictures: no real model and pictures below {check.shared}: left out")
        check.record["labels"] = None
        check.unfinished.append("pictures")
        return
    found = check.record["labels"] = check.record.get("labels") or {}
    if not check.arguments.missing:
        found.clear()
    measure = {"bench": run_bench, "ways": run_ways, "stream": run_stream, "mixed": run_mixed, "killed": run_killed,
               "noGpu": run_without_gpu, "peers": run_peers, "memcheck": run_memcheck}
    for part, seconds in PARTS.items():
        if part in found:
            continue
        if check.time_left() < seconds:
            print(f"   {part}: left to a later call", flush=True)
            check.unfinished.append("pictures")
            continue
        result = measure[part](check)
        if result is None:
            check.fail(f"pictures: {part}")
        else:
            found[part] = result
            check.save()


def bench(check, *options):
    """pictures_bench's report, or None."""
    command = [check.program(BENCH), check.real_model(), check.picture_folder(), "--preprocess", "tf", "--seconds", SECONDS, "--rounds", ROUNDS,
               *options]
    print("==", " ".join(str(part) for part in command), flush=True)
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=check.arguments.timeout,
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print("  ", error)
        return None
    with open(check.log("pictures"), "a", encoding="utf-8") as log:
        log.write(done.stdout + done.stderr)
    print("".join(f"   {line}\n" for line in done.stderr.splitlines()[-30:]), end="", flush=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def run_bench(check):
    return bench(check, "--labels", check.shared / "data/synsets.txt", "--large", LARGE)


def run_ways(check):
    reports = {name: bench(check, "--parts", "nvjpeg,memory,files,agreement", "--labels", check.shared / "data/synsets.txt", *options)
               for name, options in WAYS.items()}
    if None in reports.values():
        return None
    kept = ("batch", "threads", "gpuThreads", "decode", "blockingSync", "colours", "nvjpeg", "memory", "files", "agreement", "memoryBytes")
    return {name: {key: report[key] for key in kept} for name, report in reports.items()}


def config_of(check, name, **keys):
    """A configuration of mobicuda_stream, whose earlier results are removed."""
    folder = check.out / f"stream_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    file = check.out / f"stream_{name}.json"
    file.write_text(json.dumps({"models": [str(check.real_model())], "img_dir": str(check.picture_folder()), "result_dir": str(folder),
                                "preprocess": "tf", **keys}), encoding="utf-8")
    return file, folder


def stream(check, config, *options, env=None):
    """Exit code, what the process used, and seconds."""
    with open(check.log("pictures"), "ab") as log:
        start = time.monotonic()
        process = subprocess.Popen([check.program(STREAM), "--config", config, "--quiet", *options], stdout=log, stderr=log, env=env)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used, time.monotonic() - start


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def stream_row(folder):
    summary = summary_of(folder)
    return {key: summary[key] for key in ("done", "failed", "seconds", "picturesPerSecond", "loadSeconds") if key in summary}


def run_stream(check):
    half = check.out / "mobilenet_v2_half.onnx"
    if check.run([check.program("models/mobicuda_write_model"), "--output", half, "--width", "0.5"], check.log("pictures"))[0] != 0:
        return None
    models = [{"file": str(check.real_model()), "share": 3}, {"file": str(half), "share": 1}]
    rows = {}
    for name, keys in {"one model": {}, "two models": {"models": models}}.items():
        for count in (1, 2) if gpu_programs.gpus() > 1 else (1,):
            config, folder = config_of(check, "rate", times=STREAM_TIMES * count, gpu_num=count, **keys)
            if stream(check, config)[0] != 0:
                return None
            rows[f"{name}, {count} GPUs" if count > 1 else name] = stream_row(folder)
            shutil.rmtree(folder)
    print("  ", {name: round(row["picturesPerSecond"]) for name, row in rows.items()}, flush=True)
    return rows


def png_file(width, height):
    """A PNG file of a ramp."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes((x * 255 // width, y * 255 // height, 128)[c] for x in range(width) for c in range(3))
                    for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def broken_file(whole, kind):
    if kind == 0:
        return whole[:len(whole) * 2 // 3]
    if kind == 1:
        return b""
    if kind == 2:
        return b"P6\n60000 60000\n255\n"
    if kind == 3:
        return b"no picture at all\n" * 100
    # The frame says 65,500 x 65,500.
    frame = re.search(rb"\xff[\xc0\xc1\xc2]\0.\x08", whole, re.DOTALL).end()
    return whole[:frame] + struct.pack(">HH", 65500, 65500) + whole[frame + 4:]


def write_mixed(folder, pictures):
    """MIXED files: copies of pictures, among them PNG that is called JPEG, every BROKEN_EVERY-th broken. Returns the base of each."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    png = png_file(300, 260)
    bases = {}
    for i in range(MIXED):
        name, whole = f"{i:05}.jpg", pictures[i % len(pictures)]
        if i % BROKEN_EVERY == 7:
            bases[name], content = None, broken_file(whole, i // BROKEN_EVERY % 5)
        elif i % 50 == 3:
            bases[name], content = "png", png
        else:
            bases[name], content = i % len(pictures), whole
        (folder / name).write_bytes(content)
    return bases


def lines_of(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def run_mixed(check):
    """Every file has a result, the broken ones a reason; copies of a picture have its class; memory does not grow with the number."""
    pictures = [file.read_bytes() for file in sorted(check.picture_folder().rglob("*")) if file.suffix.lower() in (".jpg", ".jpeg")]
    bases = write_mixed(check.out / "mixed", pictures)
    peaks = {}
    for times in (4, 1):
        config, folder = config_of(check, "mixed", img_dir=str(check.out / "mixed"), times=times)
        code, used, _ = stream(check, config)
        if code != 0:
            return None
        peaks[times] = used.ru_maxrss << 10
    lines = lines_of(folder)
    classes = {}
    for line in lines:
        if "top" in line and bases[line["picture"]] is not None:
            classes.setdefault(bases[line["picture"]], []).append(line["top"][0]["class"])
    result = {"files": MIXED, "broken": sum(base is None for base in bases.values()), "results": len(lines),
              "once": len({line["item"] for line in lines}) == len(lines) == MIXED,
              "labelled": sum("top" in line for line in lines), "named": sum("error" in line for line in lines),
              "rightVerdict": sum(("error" in line) == (bases[line["picture"]] is None) for line in lines),
              "otherClassThanItsCopies": sum(len(found) - max(map(found.count, set(found))) for found in classes.values()),
              "peakBytes": peaks[1], "peakBytesOfFourTimes": peaks[4], **stream_row(folder)}
    shutil.rmtree(check.out / "mixed")
    print("  ", result, flush=True)
    return result


def run_killed(check):
    config, folder = config_of(check, "killed", times=KILLED_TIMES)
    journal = folder / "results.jsonl"
    random.seed(21)
    kills = 0
    for _ in range(KILLS):
        before = journal.stat().st_size if journal.exists() else 0
        with open(check.log("pictures"), "ab") as log:
            process = subprocess.Popen([check.program(STREAM), "--config", config, "--resume", "--quiet"], stdout=log, stderr=log)
            # A line that was begun is taken away first: the file grows beyond what it had.
            while process.poll() is None and (not journal.exists() or journal.stat().st_size <= before):
                time.sleep(0.01)
            time.sleep(random.uniform(0.02, 0.4))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.wait()
    code, _, _ = stream(check, config, "--resume")
    items = [int(line[len('{"item":'):line.index(",")]) for line in journal.read_text(encoding="utf-8").splitlines()]
    expected = KILLED_TIMES * len([file for file in check.picture_folder().rglob("*") if file.is_file()])
    result = {"kills": kills, "exit": code, "items": len(items), "distinct": len(set(items)), "expected": expected}
    shutil.rmtree(folder)
    print("  ", result, flush=True)
    return result


def run_without_gpu(check):
    config, folder = config_of(check, "cpu", times=20)
    code, used, seconds = stream(check, config, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    if code != 0:
        return None
    row = stream_row(folder)
    cores = len(os.sched_getaffinity(0))
    return {**row, "cores": cores, "coresBusy": (used.ru_utime + used.ru_stime) / seconds,
            "devices": [one.get("gpu") for one in lines_of(folder)[:1]]}


def run_peers(check):
    """The peers' document, with what the same machine does right before and after them: hosts differ, and one from hour to hour."""
    own = {name: [] for name in OWN_BESIDE_PEERS}

    def run_own():
        for name, options in OWN_BESIDE_PEERS.items():
            report = bench(check, "--parts", "files", *options)
            own[name] += [report["files"]["imagesPerSecond"]] if report else []

    run_own()
    document = check.peer("pictures", "pictures_peer", None, "--pictures", check.picture_folder(), "--workers", "16")
    run_own()
    return {**document, "own": own} if document and all(own.values()) else None


def run_memcheck(check):
    code, output = check.run(["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "9", "--padding", "512",
                              check.program(TESTS), "[sanitize]"], check.log("pictures"), timeout=MEMCHECK_SECONDS)
    summary = re.findall(r"ERROR SUMMARY: (.*)", output)
    return {"exit": code, "summary": summary[-1] if summary else "no summary"}


def requirements(record, add):
    """Calls add(name, target, measured, met) for what was measured."""
    found = record.get("labels") or {}
    if "bench" in found:
        add_rates(found, add)
        add_agreement("", found["bench"]["agreement"], add)
        for way, report in (found.get("ways") or {}).items():
            add_agreement(f", {way}", report["agreement"], add)
    add_peers(found, add)
    add_stream(found, add)
    if "mixed" in found:
        mixed = found["mixed"]
        growth = mixed["peakBytesOfFourTimes"] <= MEMORY_GROWTH * mixed["peakBytes"] + MEMORY_SLACK
        memcheck = found.get("memcheck")
        add(f"pictures: {mixed['files']:,} mixed files, {mixed['broken']} of them broken", "each labelled or named; memory bounded; memcheck 0",
            f"{mixed['labelled']:,} labelled, {mixed['named']} named, {mixed['rightVerdict']:,} rightly; at most "
            f"{mixed['peakBytes'] >> 20} MiB, {mixed['peakBytesOfFourTimes'] >> 20} MiB of four times as many; memcheck: "
            f"{memcheck['summary'] if memcheck else 'not run'}",
            mixed["once"] and mixed["rightVerdict"] == mixed["files"] and growth and memcheck and memcheck["exit"] == 0)
    if "killed" in found:
        killed = found["killed"]
        add(f"pictures: kill -9 in mid-stream, then --resume, {KILLS} times", "every picture exactly once",
            f"{killed['kills']} kills, {killed['items']:,} results, {killed['distinct']:,} of {killed['expected']:,} pictures",
            killed["kills"] == KILLS and killed["items"] == killed["distinct"] == killed["expected"])
    if "noGpu" in found:
        alone = found["noGpu"]
        add("pictures: no GPU: the same program, the CPU engine", f"all cores busy (>= {LEAST_CORES_BUSY:.0%})",
            f"{alone['picturesPerSecond']:,.0f} img/s, {alone['coresBusy']:.1f} of {alone['cores']} cores",
            alone["coresBusy"] >= LEAST_CORES_BUSY * alone["cores"])


def add_rates(found, add):
    """What a bar asks for must hold of one way; all are told."""
    bench_report = found["bench"]
    ways = {"by default": bench_report, **(found.get("ways") or {})}
    names = {"memory": "encoded JPEGs in memory to top-5 labels, fp16", "files": "files in the page cache to labels, fp16"}
    for part, name in names.items():
        add(f"pictures: {name}", f">= {LEAST[part]:,} img/s, <= {MOST_CORES[part]:.0f} host threads busy",
            "; ".join(f"{way}: {report[part]['imagesPerSecond']:,.0f} img/s, {report[part]['coresBusy']:.2f} threads"
                      for way, report in ways.items()),
            any(report[part]["imagesPerSecond"] >= LEAST[part] and report[part]["coresBusy"] <= MOST_CORES[part] for report in ways.values()))
    ratios = {}
    for way, report in ways.items():
        if "nvjpeg" in report:
            rate, alone = max(report[part]["imagesPerSecond"] for part in names), report["nvjpeg"]["imagesPerSecond"]
            ratios[way] = rate / alone, f"{way}: {rate / alone:.3f} ({rate:,.0f} / {alone:,.0f} img/s)"
    if ratios:
        add("pictures: against nvJPEG alone on the same files in the same run", f">= {LEAST_AGAINST_NVJPEG}",
            "; ".join(text for _, text in ratios.values()), max(ratio for ratio, _ in ratios.values()) >= LEAST_AGAINST_NVJPEG)
    if "large" not in bench_report:
        return
    latency = bench_report["large"]["onePicture"]["medianMs"]
    add(f"pictures: latency, one picture of {LARGE.replace('x', ' x ')} from bytes in memory to label", f"<= {MOST_LATENCY_MS} ms",
        f"{latency:.3f} ms (p99 {bench_report['large']['onePicture']['p99Ms']:.3f})", latency <= MOST_LATENCY_MS)


def add_agreement(way, agreement, add):
    share = agreement["top1Equal"] / agreement["bothClassified"]
    points = 100 * abs(agreement["rightByNvjpeg"] - agreement["rightByCpu"]) / agreement["pictures"]
    add(f"pictures: top-1 against the CPU path on the shared pictures{way}",
        f"equal on >= {LEAST_EQUAL:.0%}, accuracy within {MOST_POINTS} points",
        f"{agreement['top1Equal']} of {agreement['bothClassified']} ({share:.1%}), {agreement['rightByNvjpeg']} and "
        f"{agreement['rightByCpu']} right ({points:.2f} points)", share >= LEAST_EQUAL and points <= MOST_POINTS)


def add_peers(found, add):
    peers = found.get("peers") or {}
    rates = {row["mode"]: row["batch"] * 1e6 / row["median_us"] for row in peers.get("results", [])}
    # The slower of what was measured before and after; a bar must hold of one way, all are told.
    ways = {name: min(measured) for name, measured in (peers.get("own") or {}).items()}
    if not ways and "bench" in found:
        ways = {"by default, in another run": found["bench"]["files"]["imagesPerSecond"]}
    targets = {"dataloader": ("a DataLoader with 16 workers + torch.compile", f">= {LEAST_AGAINST_LOADER:.0f}x", LEAST_AGAINST_LOADER),
               "gpu-decoder": ("torchvision's GPU decoder + torch.compile", "faster", 1), "dali": ("NVIDIA DALI + torch.compile", "faster", 1)}
    for mode, (name, target, least) in targets.items():
        if mode in rates and ways:
            add(f"pictures: against {name}", target,
                "; ".join(f"{way}: {own / rates[mode]:.1f}x ({own:,.0f} / {rates[mode]:,.0f} img/s)" for way, own in ways.items()),
                max(ways.values()) >= least * rates[mode])


def add_stream(found, add):
    rows = found.get("stream") or {}
    if "bench" in found:
        own = found["bench"]["files"]["imagesPerSecond"]
        for name in ("one model", "two models"):
            if name in rows:
                rate = rows[name]["picturesPerSecond"]
                add(f"pictures: mobicuda_stream, {name}, against a classifier's files", f">= {LEAST_STREAM}",
                    f"{rate / own:.2f} ({rate:,.0f} / {own:,.0f} img/s)", rate >= LEAST_STREAM * own)
    if "one model, 2 GPUs" in rows:
        one, two = rows["one model"]["picturesPerSecond"], rows["one model, 2 GPUs"]["picturesPerSecond"]
        add("pictures: two GPUs against one", f">= {LEAST_TWO_GPUS}x", f"{two / one:.2f}x ({two:,.0f} / {one:,.0f} img/s)",
            two >= LEAST_TWO_GPUS * one)
