"""The stage `floors` of scripts/gpu_check: what one run of MobileNetV2's kernels uses, and the least time it can take.

Nsight Compute (ncu) counts for every kernel of a run its instructions, the cycles of the tensor pipe and its bytes. At
the GPU's peak each amount takes a time, its floor: no run of these kernels is faster. The largest floor binds. Tighter
is the structural floor: kernels run one after the other, so each counts with its own largest. More is in
docs/performance.md.
"""
import collections
import csv
import json
import os
import pathlib
import re
import shutil
import time

PRECISIONS = ("fp16", "fp32")
CEILINGS = "bench/kernels/gpu_ceilings"
BENCH = "bench/bench_engine"
SCHEDULERS = 4  # of a multiprocessor, one instruction a clock each
MOST_ABOVE = 1.03  # a floor further above the measured time is wrong
TIMEOUT = 120  # seconds for one program
START_SECONDS = 20  # what the peaks and the numbers of kernels take

# Resource: what counts it, in the order of preference. The sums of a tuple's metrics add up.
METRICS = {
    "issue": (("smsp__inst_executed",), ("sm__inst_executed",)),
    "tensor": (("sm__pipe_tensor_cycles_active",), ("sm__pipe_tensor_op_hmma_cycles_active",),
               ("sm__inst_executed_pipe_tensor",)),
    "fma": (("sm__inst_executed_pipe_fma",), ("smsp__inst_executed_pipe_fma",)),
    "dram": (("dram__bytes_read", "dram__bytes_write"), ("dram__bytes",)),
    "l2": (("lts__t_bytes",),),
}
PEAKS = ("tensor", "fma", "l2")  # those whose peak in a cycle ncu tells
L2_CLOCK = "lts__cycles_elapsed.avg.per_second"
# What ncu says where it may or can not read counters, as opposed to a program that fails.
NO_COUNTERS = re.compile(r"ERR_NVGPUCTRPERM|LibraryNotLoaded|Failed to initialize the profiler"
                         r"|driver resource was unavailable|Unsupported GPU", re.IGNORECASE)
# Runs of the network come one after the other, kernel by kernel. With --noProgrammaticLaunch the kernels are the same.
FEW_RUNS = ("--noCudaGraph", "--noProgrammaticLaunch", "--duration", "0", "--iterations", "1", "--warmUp", "0",
            "--sampleInterval", "0", "--infStreams", "1")


class Absent(Exception):
    """Counters cannot be read here; the text says why."""


class Failed(Exception):
    """A case that could not be counted; the text says what was seen."""


def sum_of(metric):
    return f"{metric}.sum"


def peak_of(metric):
    return f"{metric}.sum.peak_sustained"


def chosen_metrics(available):
    """{resource: metrics} out of the names that ncu knows for this GPU."""
    chosen = {}
    for resource, candidates in METRICS.items():
        chosen[resource] = next((names for names in candidates if set(names) <= available), None)
        if chosen[resource] is None:
            alike = sorted(name for name in available if resource in name)
            raise Absent(f"ncu has none of {', '.join(' + '.join(names) for names in candidates)} for this GPU; "
                         f"of {len(available)} metrics these are alike: {', '.join(alike[:20]) or 'none'}")
    return chosen


def asked_metrics(metrics):
    """What ncu is asked for."""
    return [*(sum_of(name) for names in metrics.values() for name in names),
            *(peak_of(metrics[resource][0]) for resource in PEAKS), L2_CLOCK]


def factor(unit):
    """By which a number of ncu's is multiplied for bytes, instructions, cycles, and those in a second."""
    counted, _, time_unit = unit.partition("/")
    prefix = re.fullmatch(r"([KMGT])(?:byte|hz|inst|cycle)s?", counted, re.IGNORECASE)
    scale = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[prefix.group(1).lower()] if prefix else 1.0
    return scale * {"ns": 1e9, "nsecond": 1e9, "us": 1e6, "usecond": 1e6, "ms": 1e3, "msecond": 1e3}.get(time_unit, 1.0)


def parse_counters(text):
    """[{name, grid, block, cells, units}] of ncu's `--csv --page raw`: a row of names, one of units, one a kernel."""
    lines = [line for line in text.splitlines() if line and not line.startswith("==")]
    start = next((i for i, line in enumerate(lines) if line.startswith(('"ID",', "ID,"))), None)
    if start is None:
        raise Failed(f"ncu printed no table: {text.strip()[-300:] or 'nothing at all'}")
    header, *rows = list(csv.reader(lines[start:]))
    if "Kernel Name" not in header:
        raise Failed(f"ncu's table has no column Kernel Name, but {', '.join(header)}")
    units, kernels = {}, []
    for row in rows:
        if len(row) != len(header):
            continue  # what the program itself printed
        cells = dict(zip(header, row))
        if not cells["ID"].isdigit():
            units = cells
            continue
        kernels.append({"name": cells["Kernel Name"], "grid": cells.get("Grid Size", ""),
                        "block": cells.get("Block Size", ""), "cells": cells, "units": units})
    return kernels


def value(kernel, metric):
    text = kernel["cells"].get(metric)
    try:
        return float(text.replace(",", "")) * factor(kernel["units"].get(metric, ""))
    except (AttributeError, ValueError):
        raise Failed(f"ncu has {'no ' if text is None else ''}{metric}{'' if text is None else f' = {text!r}'} of "
                     f"{kernel['name'][:80]}; it printed {', '.join(kernel['cells'])}") from None


def one_run(kernels, count):
    """The kernels of a run out of those counted: the last one of the run before it and the first one of the next show
    that it is one."""
    if len(kernels) != count + 2:
        raise Failed(f"ncu counted {len(kernels)} kernels, expected {count} of a run and its neighbours")
    launched = [(kernel["name"], kernel["grid"], kernel["block"]) for kernel in kernels]
    if launched[:2] != launched[-2:]:
        raise Failed(f"a run is not the {count} kernels that it has layers: before it {launched[0]}, its first "
                     f"{launched[1]}, its last {launched[-2]}, after it {launched[-1]}")
    return kernels[1:-1]


def used_by(kernel, metrics):
    """{resource: amount} of one kernel."""
    return {resource: sum(value(kernel, sum_of(name)) for name in names) for resource, names in metrics.items()}


def peaks_of(kernels, metrics):
    """{resource: the most in a cycle of the multiprocessors}; of l2, which has a clock of its own, in a second."""
    peaks = {}
    for resource in PEAKS:
        peaks[resource] = value(kernels[0], peak_of(metrics[resource][0]))
        if not peaks[resource] > 0:
            raise Failed(f"ncu says that the peak of {metrics[resource][0]} is {peaks[resource]}")
    clocks = sorted(value(kernel, L2_CLOCK) for kernel in kernels)
    peaks["l2"] *= clocks[len(clocks) // 2]
    return peaks


def resource_floors(used, peaks, gpu, clock_mhz):
    """{resource: microseconds} that these amounts take at least."""
    return {"issue": used["issue"] / (SCHEDULERS * gpu["multiprocessors"] * clock_mhz),
            "tensor": used["tensor"] / (peaks["tensor"] * clock_mhz),
            "fma": used["fma"] / (peaks["fma"] * clock_mhz),
            "dram": 1e6 * used["dram"] / gpu["copyBytesPerSecond"],
            "l2": 1e6 * used["l2"] / peaks["l2"]}


def case_floors(amounts, peaks, gpu, clock_mhz):
    """What the record has of a case; `amounts` are used_by() of its kernels."""
    used = {resource: sum(one[resource] for one in amounts) for resource in METRICS}
    floors = {"launches": gpu["graphLaunchUs"] + (len(amounts) - 1) * gpu["handOverUs"],
              **resource_floors(used, peaks, gpu, clock_mhz)}
    of_kernels = [{"launches": gpu["handOverUs"], **resource_floors(one, peaks, gpu, clock_mhz)} for one in amounts]
    bound_by = collections.Counter(max(one, key=one.get) for one in of_kernels)
    structural = gpu["graphLaunchUs"] - gpu["boundaryUs"] + sum(max(one.values()) for one in of_kernels)
    return {"kernels": len(amounts), "usedBy": {resource: round(amount) for resource, amount in used.items()},
            "floorsUs": {resource: round(us, 2) for resource, us in floors.items()},
            "binding": max(floors, key=floors.get), "structuralUs": round(structural, 2),
            "kernelsBoundBy": dict(bound_by.most_common())}


def of_custom(results):
    """{(precision, batch): result} of the custom engine."""
    return {(one.get("precision"), one.get("batch")): one for one in results or [] if one.get("impl") == "custom"}


def sustained_cases(record):
    return of_custom((record.get("sustained") or {}).get("cases"))


def idle_power(record):
    """Watts of the GPU with its clocks up and nothing to do: before the batches of the stage bench. 0: not known."""
    return min((state["before"]["powerW"] for state in record.get("gpuStates") or [] if state.get("before")), default=0.0)


def at_power_limit(record, case):
    """Microseconds of a batch at the power limit, were its energy that of its sustained run: what that took beyond an idle
    GPU, over what the limit leaves beyond one. No floor: energy depends on the clock, and falls when kernels change. None
    where the record has no sustained run of the case."""
    alone = sustained_cases(record).get((case["precision"], case["batch"]), {})
    limit = record["floors"]["gpu"].get("powerLimitW")
    energy, rate, idle = alone.get("energyPerPictureJ"), alone.get("picturesPerSecond"), idle_power(record)
    if not (energy and rate and limit):
        return None
    return round(1e6 * case["batch"] * (energy - idle / rate) / (limit - idle), 2)


def view(record):
    """The record's cases, each with `atPowerLimitUs` (see at_power_limit())."""
    return [{**case, "atPowerLimitUs": at_power_limit(record, case)}
            for case in (record.get("floors") or {}).get("cases") or []]


def clock_of(record, precision, batch, most_mhz):
    """The multiprocessors' clock in MHz while the case was timed, and where it comes from."""
    result = of_custom(record.get("latency")).get((precision, batch), {})
    clock = ((result.get("utilisation") or {}).get("smClockMhz") or {}).get("mean")
    return (clock, "timed runs") if clock else (most_mhz, "clocks.max.sm")


def profiler():
    """The path of ncu."""
    places = [shutil.which("ncu"), "/usr/local/cuda/bin/ncu",
              *map(str, sorted(pathlib.Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True))]
    found = next((place for place in places if place and os.access(place, os.X_OK)), None)
    if not found:
        raise Absent("ncu (Nsight Compute) is not installed")
    return found


def environment():
    return {**os.environ, "LC_ALL": "C"}  # numbers are printed as the locale has them


def known_metrics(check, ncu):
    """What ncu can count on this GPU, and its version."""
    code, output = check.run([ncu, "--version"], check.log("floors"), timeout=TIMEOUT, env=environment())
    version = re.search(r"Version (\S+)", output)
    code, output = check.run([ncu, "--query-metrics"], check.log("floors"), timeout=TIMEOUT, env=environment())
    names = set(re.findall(r"^\s*([a-z0-9]+__\w+)", output, re.MULTILINE))
    if not names:
        raise Absent(f"ncu --query-metrics: exit code {code}: {output.strip()[-300:] or 'no output'}")
    return names, version and version.group(1)


def constants(check):
    """What the GPU reaches and may take."""
    code, output = check.run([check.program(CEILINGS)], check.log("floors"), timeout=TIMEOUT)
    if code != 0:
        raise Failed(f"{CEILINGS}: exit code {code}: {output.strip()[-300:]}")
    gpu = json.loads(output.strip().splitlines()[-1])
    code, output = check.run(["nvidia-smi", "--query-gpu=power.limit,clocks.max.sm", "--format=csv,noheader,nounits"],
                             check.log("floors"), timeout=TIMEOUT)
    numbers = re.match(r"\s*([\d.]+)\s*,\s*([\d.]+)", output)
    if code != 0 or not numbers:
        raise Failed(f"nvidia-smi tells no power limit and clock: exit code {code}: {output.strip()[-300:]}")
    return {**gpu, "powerLimitW": float(numbers.group(1)), "maxClockMhz": float(numbers.group(2))}


def kernel_counts(check, batches):
    """{(precision, batch): kernels of a run}; every layer is one."""
    report = check.bench_engine("floors_layers", "--impl", "custom", "--precision", ",".join(PRECISIONS), "--model",
                                check.model(), "--batch", ",".join(map(str, batches)), *FEW_RUNS)
    return {case: len(result["layers"]) for case, result in of_custom(report and report["results"]).items()}


def count(check, ncu, metrics, precision, batch, kernels):
    """ncu's kernels of the second run, as the first finds the weights in device memory and the others in L2; and how
    often it ran each for that."""
    csv_file = check.out / f"floors_{precision}_{batch}.csv"
    csv_file.unlink(missing_ok=True)
    code, output = check.run(
        [ncu, "--csv", "--page", "raw", "--print-units", "base", "--log-file", csv_file, "--target-processes", "all",
         "--replay-mode", "kernel", "--clock-control", "none", "--cache-control", "none", "--launch-skip", kernels - 1,
         "--launch-count", kernels + 2, "--metrics", ",".join(asked_metrics(metrics)),
         check.program(BENCH), "--impl", "custom", "--precision", precision, "--model", check.model(), "--batch", batch,
         *FEW_RUNS], check.log("floors"), timeout=TIMEOUT, env=environment())
    text = csv_file.read_text(encoding="utf-8", errors="replace") if csv_file.exists() else ""
    said = output + text
    if NO_COUNTERS.search(said):
        reason = next(line for line in said.splitlines() if NO_COUNTERS.search(line))
        raise Absent(reason.strip()[:300])
    if code != 0:
        raise Failed(f"ncu: exit code {code}: {(text + output).strip()[-500:]}")
    return one_run(parse_counters(text or output), kernels)


def run(check, batches):
    """Counts all cases; with --missing those that the record lacks."""
    try:
        run_cases(check, batches)
    except Absent as reason:
        # Told in the record and by a requirement; what was counted before stays.
        check.record["floors"] = {**(check.record.get("floors") or {}), "absent": str(reason)}
        print("   no counters:", reason, flush=True)
    except Failed as error:
        check.fail(f"floors: {error}")
    floors = check.record.get("floors") or {}
    whole = len(floors.get("cases") or []) == len(PRECISIONS) * len(batches)
    check.unfinished += ["floors"] * (not whole and "absent" not in floors)


def run_cases(check, batches):
    kept = (check.record.get("floors") or {}).get("cases") or [] if check.arguments.missing else []
    # Where the clock of the timed runs became known since, it counts.
    kept = [case for case in kept if case["clockOf"] == clock_of(check.record, case["precision"], case["batch"], 0)[1]]
    cases = {(case["precision"], case["batch"]): case for case in kept}
    if len(cases) == len(PRECISIONS) * len(batches):
        return
    if check.time_left() < START_SECONDS:
        print("   floors: left to a later call", flush=True)
        return
    ncu = profiler()
    available, version = known_metrics(check, ncu)
    metrics = chosen_metrics(available)
    gpu = {**constants(check), "ncu": version}
    counts = kernel_counts(check, batches)
    if not counts:
        return  # told by then
    check.record["floors"] = {"gpu": gpu, "metrics": {resource: list(names) for resource, names in metrics.items()},
                              "cases": kept}
    longest = 0.0
    for precision, batch in [(precision, batch) for precision in PRECISIONS for batch in batches]:
        if (precision, batch) in cases:
            continue
        if check.time_left() < longest:
            print(f"   {precision} batch {batch} and what follows: left to a later call", flush=True)
            break
        start = time.monotonic()
        try:
            kernels = count(check, ncu, metrics, precision, batch, counts[precision, batch])
            peaks = peaks_of(kernels, metrics)
            clock, source = clock_of(check.record, precision, batch, gpu["maxClockMhz"])
            case = case_floors([used_by(kernel, metrics) for kernel in kernels], peaks, gpu, clock)
        except Failed as error:
            check.fail(f"floors: {precision} batch {batch}: {error}")
            continue
        cases[precision, batch] = {"precision": precision, "batch": batch, "clockMhz": round(clock, 1),
                                   "clockOf": source, "peaks": peaks, **case}
        check.record["floors"]["cases"] = [cases[key] for key in sorted(cases)]
        longest = max(longest, time.monotonic() - start)
        floors = ", ".join(f"{resource} {us:.1f}" for resource, us in case["floorsUs"].items())
        print(f"   {precision} batch {batch}: {case['kernels']} kernels, floors in us: {floors}; kernel by kernel "
              f"{case['structuralUs']:.1f}", flush=True)
        check.save()


def compared(record):
    """[(case's name, floor's name, floor, measured time)] in us, where that time was measured."""
    latency = of_custom(record.get("latency"))
    found = []
    for case in (record.get("floors") or {}).get("cases") or []:
        timed = latency.get((case["precision"], case["batch"]))
        for name, floor in {**case["floorsUs"], "kernel by kernel": case["structuralUs"]}.items():
            if timed:
                found.append((f"{case['precision']} batch {case['batch']}", name, floor, 1e3 * timed["latencyMs"]["median"]))
    return found


def requirements(record, batches, add):
    """Calls add(name, target, measured, met)."""
    floors = record.get("floors")
    if floors is None:
        return
    wanted = {f"{precision} batch {batch}" for precision in PRECISIONS for batch in batches}
    comparisons = compared(record)
    judged = {case for case, *_ in comparisons}
    texts = [f"{len(wanted & judged)} cases"]
    if "absent" in floors:
        texts.append(f"no counters: {floors['absent']}")
    wrong = [one for one in comparisons if one[2] > MOST_ABOVE * one[3]]
    highest = wrong or sorted(comparisons, key=lambda one: one[2] / one[3])[-1:]
    texts += [f"{case}: {floor:.1f} of {time_us:.1f} us ({name}, {100 * floor / time_us:.0f} %)"
              for case, name, floor, time_us in highest]
    add("floors: each headline has its binding floor",
        f"{len(wanted)} cases, none above the measured time by more than {100 * (MOST_ABOVE - 1):.0f} %",
        "; ".join(texts), wanted <= judged and not wrong and "absent" not in floors)
