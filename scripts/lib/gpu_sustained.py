"""The stage `sustained` of scripts/gpu_check: headline cases of MobileNetV2, each alone on the GPU for a minute."""

SECONDS = 60
START_SECONDS = 25  # of a process: cudnn searches its algorithms
CASES = (("custom", "fp16", 1), ("custom", "fp16", 32), ("custom", "fp16", 256), ("custom", "fp32", 256),
         ("cudnn", "fp16", 256))


def case_of(result):
    return result["impl"], result["precision"], result["batch"]


def measured(result):
    """What the record keeps of a result of bench_engine."""
    sustained = result["sustained"]
    used = sustained["utilisation"]
    return {"impl": result["impl"], "precision": result["precision"], "batch": result["batch"],
            "seconds": sustained["seconds"], "runs": sustained["runs"],
            "picturesPerSecond": sustained["picturesPerSecond"], "burstPicturesPerSecond": result["picturesPerSecond"],
            **{key: used[key] for key in ("energyPerPictureJ", "energySource", "powerW", "smClockMhz", "temperatureC",
                                          "clockReasons")}}


def run(check):
    """Measures the cases; with --missing those that the record lacks, with --time-limit as many as there is time for."""
    cases = check.record.setdefault("sustained", {"cases": []})["cases"]
    if not check.arguments.missing:
        cases.clear()
    for implementation, precision, batch in CASES:
        if (implementation, precision, batch) in map(case_of, cases):
            continue
        if check.time_left() < SECONDS + START_SECONDS:
            check.unfinished.append("sustained")
            print(f"   {implementation} {precision} batch {batch}: left to a later call", flush=True)
            continue
        report = check.bench_engine("sustained", "--impl", implementation, "--precision", precision, "--batch", batch,
                                    "--model", check.model(), "--duration", "0.5", *check.timed_input(), "--sustained", SECONDS)
        if report:
            cases.append(measured(report["results"][0]))
            check.save()
        else:
            check.unfinished.append("sustained")
    cases.sort(key=lambda case: CASES.index(case_of(case)))


def requirements(record, add):
    """Calls add(name, target, measured, met) for each case that was measured."""
    for case in (record.get("sustained") or {"cases": []})["cases"]:
        energy = case["energyPerPictureJ"]
        told = f"{1e3 * energy:.2f} mJ a picture by the {case['energySource']}" if energy else "energy unknown"
        add(f"sustained: {case['impl']} {case['precision']} batch {case['batch']}, alone",
            f">= {SECONDS} s by wall time, energy by the GPU's counter",
            f"{case['seconds']:.0f} s, {case['picturesPerSecond']:,.0f} img/s ({case['burstPicturesPerSecond']:,.0f} in bursts), {told}",
            case["seconds"] >= SECONDS and case["energySource"] == "counter")
