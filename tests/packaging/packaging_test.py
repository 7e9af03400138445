"""packaging_test.py ROOT SUBJECT [ARGUMENT...]: what stands in packaging/, and what its scripts write."""
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
VERSION = re.search(r"project\(mobicuda VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def check(condition, message):
    if not condition:
        sys.exit(f"not so: {message}")


def versions():
    """Every place that names the version names the project's."""
    check(json.loads((ROOT / "packaging/vcpkg/mobicuda/vcpkg.json").read_text())
          ["version"] == VERSION, "vcpkg.json has the version")
    check(f"\n## [{VERSION}]" in (ROOT / "CHANGELOG.md").read_text(), "CHANGELOG.md has a section of the version")


def vcpkg(cmake):
    """The port's manifest, and what its portfile asks for."""
    manifest = json.loads((ROOT / "packaging/vcpkg/mobicuda/vcpkg.json").read_text())
    names = [entry if isinstance(entry, str) else entry["name"] for entry in manifest["dependencies"]]
    for feature in manifest["features"].values():
        check(feature["description"], "features are described")
        names += feature["dependencies"]
    check(all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
          for name in [manifest["name"], *names]), f"vcpkg's names are lower-case: {names}")
    port = ROOT / "packaging/vcpkg/mobicuda"
    with tempfile.TemporaryDirectory() as folder:
        script = ROOT / "tests/packaging/port_dry_run.cmake"
        done = subprocess.run([cmake, f"-DPORT={port}", f"-DROOT={ROOT}", "-P", script], cwd=folder,
                              capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    for words in ("-DMOBICUDA_CUDA=OFF;-DMOBICUDA_BUILD_BENCH=ON", "install", "config_fixup", "copy_tools"):
        check(words in done.stdout, f"{words} in {done.stdout}")


def sbom(build):
    """The bill of materials has what SPDX 2.3 asks of a document, and names what is known to be linked."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "sbom.json"
        done = subprocess.run([sys.executable, ROOT / "packaging/make_sbom.py",
                              build, file], capture_output=True, text=True)
        check(done.returncode == 0, done.stderr)
        bill = json.loads(file.read_text())
    check(bill["spdxVersion"] == "SPDX-2.3" and bill["SPDXID"] ==
          "SPDXRef-DOCUMENT" and bill["dataLicense"] == "CC0-1.0", "it is SPDX 2.3")
    check(re.fullmatch(r"https?://[^#\s]+", bill["documentNamespace"]), "a namespace without fragment")
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["creationInfo"]["created"]), "the time of creation")
    check(all(re.fullmatch(r"(Tool|Person|Organization): .+", one)
          for one in bill["creationInfo"]["creators"]), "creators")
    identifiers = [package["SPDXID"] for package in bill["packages"]]
    check(len(set(identifiers)) == len(identifiers), "identifiers differ")
    for package in bill["packages"]:
        check(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", package["SPDXID"]), package["SPDXID"])
        for field in ("name", "versionInfo", "downloadLocation",
                      "licenseConcluded", "licenseDeclared", "copyrightText"):
            check(package[field], f"{package['SPDXID']} has {field}")
    relations = {(one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"])
                  for one in bill["relationships"]}
    for one, _, other in relations:
        check({one, other} <= {*identifiers, "SPDXRef-DOCUMENT"}, f"{one} and {other} are in the document")
    library = "SPDXRef-libmobicuda.so"
    check(("SPDXRef-DOCUMENT", "DESCRIBES", library) in relations, "it describes libmobicuda.so")
    for kind, pattern in {"DYNAMIC_LINK": r"libc6",
        "BUILD_DEPENDENCY_OF": r"(lib)?eigen", "GENERATED_FROM": r".*onnx"}.items():
        ends = [{one, other} - {library} for one, type_, other in relations if type_ == kind and library in (one, other)]
        check(any(re.match(f"SPDXRef-{pattern}", end) for end in set().union(*ends)), f"libmobicuda.so {kind} {pattern}")
    soname = subprocess.run(["readelf", "-d", pathlib.Path(build) / "libmobicuda.so"],
                            check=True, capture_output=True, text=True).stdout
    linked = {other for one, type_, other in relations if one == library and type_ == "DYNAMIC_LINK"}
    if "libprotobuf-lite.so" in soname:
        check(any("protobuf-lite" in other for other in linked), f"protobuf-lite is among {linked}")
    check(len(linked) <= soname.count("(NEEDED)"), f"no more is linked than readelf knows: {linked}")


def supply():
    """Python packages that tests install are of one version each; the library's sources open no connection."""
    lists = [*ROOT.glob("tests/*/*requirements.txt"), ROOT / "tests/serving/server.txt"]
    check(len(lists) >= 4, f"lists of packages are found: {lists}")
    for file in lists:
        for line in file.read_text().splitlines():
            pinned = line.startswith("#") or re.fullmatch(r"[\w.,\[\]-]+==[\w.]+( --hash=sha256:[0-9a-f]{64})?", line)
            check(pinned, f"{file.name} has one version of each package: {line}")
    network = re.compile(r"#include <(sys/socket|netdb|netinet/|arpa/inet|curl/)")
    sources = [file for box in ("engine", "wire_format", "onnx_import", "plan_file", "baselines", "version", "c_api", "kernels", "pictures")
               for file in (ROOT / box).rglob("*") if file.suffix in (".h", ".cpp", ".cu", ".cuh")]
    check(len(sources) > 300, f"the library's sources are found: {len(sources)}")
    for file in sources:
        check(not network.search(file.read_text()), f"{file.relative_to(ROOT)} opens no connection")


def man(program, page):
    """Every option of bench_engine is in the page, and groff has nothing to say of it."""
    text = gzip.decompress(pathlib.Path(page).read_bytes()).decode()
    plain = text.replace("\\-", "-").replace("\\&", "")
    for arguments in ([], ["report"]):
        answer = subprocess.run([program, *arguments, "--help"], check=True, capture_output=True, text=True).stdout
        for option in re.findall(r"^  (?:-\w,)?(--\w+)", answer, flags=re.M):
            check(re.search(rf"\\fB[^\n]*{option}\b", plain), f"{option} is in the page")
    check(f"mobicuda {VERSION}" in text, "the version is in the page")
    check("stopped by Ctrl-C" in plain, "so are the exit codes")
    try:
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=text, capture_output=True, text=True)
        check(not done.stderr, done.stderr)
    except FileNotFoundError:
        print("groff is not installed: the page's form was not checked")


if __name__ == "__main__":
    {"versions": versions, "vcpkg": vcpkg, "sbom": sbom, "man": man, "supply": supply}[sys.argv[2]](*sys.argv[3:])
