"""kernel_table_test.py SCRIPT: runs scripts/kernel_table on made-up times."""
import json
import pathlib
import subprocess
import sys
import tempfile

SHAPE = "m49_n8_k16"
CASE = f"{SHAPE}/fp16/b1/cold/manual_time"
FIRST = "8x8x3_to8_k3_s2_p1"


def one(name, time, label, **more):
    return {"name": name, "run_type": "iteration", "real_time": time, "time_unit": "us", "label": label, **more}


BENCHMARKS = [
    one(f"gemm/mma_a/{CASE}", 3.0, "net*2 other*1 | chosen"),
    one(f"gemm/mma_a/{CASE}", 5.0, "net*2 other*1 | chosen"),
    one(f"gemm/mma_a/{CASE}", 4.0, "net*2 other*1 | chosen"),
    one(f"gemm/mma_b/{CASE}", 2.5, "net*2 other*1"),
    one(f"gemm/mma_c/{CASE}", 0.1, "net*2 other*1", error_occurred=True),
    one(f"cudnn/gemm/{CASE}", 3.5, "net*2 other*1 | engine 1"),
    one(f"conv2d/stem/{FIRST}_nchw_float/fp16/b1/cold/manual_time", 6.0, "net*1 | chosen"),
    one(f"conv2d/stem/{FIRST}_nhwc_uint8/fp16/b1/cold/manual_time", 1.0, "net*1 | chosen"),
    one(f"cudnn/conv2d/{FIRST}/fp16/b1/cold/manual_time", 9.0, "net*1 | engine 2"),
    one("gemm/mma_a/m1_n1_k8/fp16/b1/cold/manual_time", 1.0, "net*1 | chosen"),
    one("softmax/1x1x10/fp16/b1/cold/manual_time", 1.0, "net*1"),
]


def run(script, *arguments):
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def expect(condition, text):
    if not condition:
        sys.exit(f"not as expected:\n{text}")


def main():
    script = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "times.json"
        file.write_text(json.dumps({"benchmarks": BENCHMARKS}))
        code, text = run(script, str(file), "--network", "net", "--markdown")
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
        # The median of the chosen variant's repetitions; what failed is not the fastest; losses first.
        expect(code == 0 and len(rows) == 4, text)
        expect(rows[2] == [f"gemm {SHAPE}", "fp16 b1 cold", "2", "mma_a", "4.00", "mma_b", "2.50", "3.50", "0.88",
                           "+1.00", "engine 1"], text)
        expect(rows[3] == [f"conv2d {FIRST}", "fp16 b1 cold", "1", "stem (nchw_float)", "6.00", "same", "6.00", "9.00",
                           "1.50", "-3.00", "engine 2"], text)
        code, text = run(script, str(file))
        expect(code == 0 and "1 of 2 shapes lose against cuDNN, 1.5 us in all" in text, text)
        expect("would save 4.5 us" in text and "2 shapes were measured on one side only" in text, text)
        code, text = run(script, str(file), "--network", "none")
        expect(code == 1 and "there are net, other" in text, text)
        code, text = run(script, str(file), "--batch", "8")
        expect(code == 1 and "--against=cudnn" in text, text)
        code, text = run(script, str(pathlib.Path(folder) / "absent.json"))
        expect(code == 1 and "absent.json: cannot be read: No such file" in text, text)
        for content, what in (("{\"error\": \"x\"}", 'has no list "benchmarks"'), ("[]", 'has no list "benchmarks"'),
                              ("{", "is no JSON")):
            file.write_text(content)
            code, text = run(script, str(file))
            expect(code == 1 and f"{file}: {what}" in text, text)


if __name__ == "__main__":
    main()
