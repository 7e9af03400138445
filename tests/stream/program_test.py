#!/usr/bin/env python3
"""mobicuda_stream from the outside, on the CPU: usage: program_test.py MOBICUDA_STREAM MOBICUDA_WRITE_MODEL
BENCH_ENGINE SCHEMA KILLED_TIMES"""
import collections
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, WRITE_MODEL, BENCH_ENGINE, SCHEMA = sys.argv[1:5]
KILLED_TIMES = int(sys.argv[5])  # so many passes over the pictures that a kill comes long before their end
PICTURES = 30
BROKEN = ("b/broken.jpg", "text.png")


def stream(config, *options):
    return subprocess.run([PROGRAM, "--config", config, *options], capture_output=True, text=True, timeout=300, check=False)


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "models").mkdir()
        for name, classes in (("one", "10"), ("two", "12")):
            subprocess.run([WRITE_MODEL, "--output", cls.folder / f"models/{name}.onnx", "--width", "0.35", "--resolution", "32",
                            "--classes", classes], check=True, stdout=subprocess.DEVNULL)
        for i in range(PICTURES - len(BROKEN)):
            file = cls.folder / "photos" / ("a" if i % 2 else "b") / f"{i:03}.ppm"
            file.parent.mkdir(parents=True, exist_ok=True)
            width, height = 40 + i, 60 - i
            file.write_bytes(f"P6\n{width} {height}\n255\n".encode() + bytes((i * 7 + k * k) % 256 for k in range(width * height * 3)))
        (cls.folder / "photos/text.png").write_text("no picture")
        (cls.folder / "photos/b/broken.jpg").write_bytes(b"\xff\xd8\xff\xe0broken")
        (cls.folder / "labels.txt").write_text("".join(f"class {i}\n" for i in range(12)))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def config(self, name, **more):
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({"models": ["one", {"file": "two.onnx", "name": "Two", "share": 2}], "model_dir": "models",
                                    "img_dir": "photos", "result_dir": f"results_{name}", "gpu_num": 0, "batchsize": 4, "top": 3,
                                    **more}))
        return file

    def results(self, name):
        lines = (self.folder / f"results_{name}/results.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        self.assertEqual(max(collections.Counter(one["item"] for one in found).values(), default=1), 1)
        return {one["item"]: one for one in found}

    def test_all_pictures(self):
        done = stream(self.config("all", times=2, labels="labels.txt"))
        self.assertEqual((done.returncode, done.stderr.count("error")), (0, 0), done.stderr)
        found = self.results("all")
        self.assertEqual(sorted(found), list(range(2 * PICTURES)))
        names = sorted(str(file.relative_to(self.folder / "photos")) for file in (self.folder / "photos").rglob("*") if file.is_file())
        for item, one in found.items():
            self.assertEqual((one["picture"], one["time"], one["gpu"]), (names[item % PICTURES], item // PICTURES, None))
            self.assertEqual("error" in one, one["picture"] in BROKEN)
            if "top" in one:
                self.assertEqual(len(one["top"]), 3)
                scores = [best["score"] for best in one["top"]]
                self.assertEqual(scores, sorted(scores, reverse=True))
                self.assertTrue(all(best["label"] == f"class {best['class']}" for best in one["top"]))
                self.assertLess(max(best["class"] for best in one["top"]), 10 if one["model"] == "one" else 12)
        # A picture's result is the model's: the same whenever it comes.
        by_case = collections.defaultdict(set)
        for one in found.values():
            by_case[one["picture"], one["model"]].add(json.dumps(one.get("top")))
        self.assertTrue(all(len(answers) == 1 for answers in by_case.values()))
        models = collections.Counter(one["model"] for one in found.values())
        self.assertGreater(models["Two"], models["one"])
        summary = json.loads((self.folder / "results_all/summary.json").read_text())
        self.assertEqual((summary["pictures"], summary["done"], summary["failed"], summary["complete"]),
                         (2 * PICTURES, 2 * PICTURES, 2 * len(BROKEN), True))
        self.assertEqual([model["pictures"] for model in summary["models"]], [models["one"], models["Two"]])
        self.assertEqual(summary["models"][0]["fileBytes"], (self.folder / "models/one.onnx").stat().st_size)
        self.assertIn("60 pictures in", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 120)
        again = stream(self.config("all", times=2, labels="labels.txt"))
        self.assertEqual(again.returncode, 2)
        self.assertIn("--resume", again.stderr)
        again = stream(self.config("all", times=2), "--resume")
        self.assertEqual((again.returncode, again.stdout), (0, "all 60 pictures were done before\n"))
        again = stream(self.config("all", times=3), "--resume")
        self.assertEqual(again.returncode, 2)
        self.assertIn("another 'times'", again.stderr)

    def test_models_read_anew_give_the_same(self):
        self.assertEqual(stream(self.config("kept")).returncode, 0)
        self.assertEqual(stream(self.config("anew", preload=False)).returncode, 0)
        self.assertEqual(self.results("kept"), self.results("anew"))

    def test_plan_file(self):
        # What a plan was compiled for, bytes and their preprocessing among it, is taken from it.
        subprocess.run([BENCH_ENGINE, "--impl", "cpu", "--batch", "4", "--input", "uint8", "--preprocess", "tf", "--warmUp", "0",
                        "--duration", "0", "--iterations", "1", "--model", self.folder / "models/one.onnx", "--saveEngine",
                        self.folder / "models/plan.plan"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        answers = {}
        for name, model in (("by_plan", "plan.plan"), ("by_onnx", {"file": "one", "name": "plan", "preprocess": "tf"})):
            done = stream(self.config(name, models=[model]))
            self.assertEqual(done.returncode, 0, done.stderr)
            answers[name] = self.results(name)
        self.assertEqual(answers["by_plan"], answers["by_onnx"])
        done = stream(self.config("other_precision", models=["plan.plan"], precision="fp64"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("plan.plan: was compiled for fp32, 'precision' asks for fp64", done.stderr)
        done = stream(self.config("absent_plan", models=["none.plan"]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.plan: the model cannot be read", done.stderr)

    def test_killed_and_resumed(self):
        config = self.config("killed", times=KILLED_TIMES)
        results = self.folder / "results_killed/results.jsonl"
        for _ in range(4):
            before = results.read_bytes().count(b"\n") if results.exists() else 0
            process = subprocess.Popen([PROGRAM, "--config", config, "--resume", "--quiet"], stdout=subprocess.DEVNULL)
            while process.poll() is None and (not results.exists() or results.read_bytes().count(b"\n") < before + 20):
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.wait()
        whole = results.read_bytes()
        results.write_bytes(whole[: whole.rindex(b"\n") - 5])  # as if the last write had been cut
        done = stream(config, "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("was cut off", done.stderr)
        self.assertEqual(sorted(self.results("killed")), list(range(KILLED_TIMES * PICTURES)))

    def test_interrupted(self):
        config = self.config("interrupted", times=2000)
        results = self.folder / "results_interrupted/results.jsonl"
        process = subprocess.Popen([PROGRAM, "--config", config, "--quiet"], stdout=subprocess.PIPE, text=True)
        while process.poll() is None and (not results.exists() or results.stat().st_size == 0):
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        self.assertIn("--resume goes on", out)
        summary = json.loads((self.folder / "results_interrupted/summary.json").read_text())
        self.assertTrue(summary["interrupted"])
        self.assertEqual(len(self.results("interrupted")), summary["done"])

    def test_mistakes(self):
        cases = {"unknown": ({"batch": 1}, 2, "'batch': is not a known key"), "range": ({"batchsize": 0}, 2, "from 1 to 1024"),
                 "folder": ({"img_dir": "nowhere"}, 1, "nowhere"), "model": ({"models": ["absent"]}, 1, "absent.onnx"),
                 "no_model": ({"models": [{"file": "../labels.txt.onnx"}]}, 1, "labels.txt.onnx"),
                 "decode": ({"decode": "gpu"}, 2, "asks for no GPU"), "gpus": ({"gpu_num": 64}, 4, "'gpu_num': is 64"),
                 "precision": ({"precision": "fp16"}, 1, "fp16"), "labels": ({"labels": "none.txt"}, 1, "none.txt")}
        for name, (more, code, text) in cases.items():
            with self.subTest(name):
                done = stream(self.config(name, **more))
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(text, done.stderr)
                self.assertTrue(done.stderr.startswith("mobicuda_stream: ") or "\nmobicuda_stream: " in done.stderr)
        done = stream(self.folder / "none.json")
        self.assertEqual(done.returncode, 1)
        done = subprocess.run([PROGRAM], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--config", done.stderr)
        done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertIn("--resume", done.stdout)

    def test_only_broken_pictures(self):
        (self.folder / "rubbish").mkdir()
        (self.folder / "rubbish/a.jpg").write_text("nothing")
        done = stream(self.config("rubbish", img_dir="rubbish"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no picture could be classified", done.stderr)

    def test_schema_has_the_keys(self):
        schema = json.loads(pathlib.Path(SCHEMA).read_text())
        done = stream(self.config("keys", no_such_key=1))
        known = done.stderr.split("known are: ")[1].strip().split(", ")
        self.assertEqual(known, sorted(schema["properties"]))
        done = stream(self.config("model_keys", models=[{"file": "one", "no_such_key": 1}]))
        known = done.stderr.split("known are: ")[1].strip().split(", ")
        self.assertEqual(known, sorted(schema["properties"]["models"]["items"]["anyOf"][1]["properties"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
