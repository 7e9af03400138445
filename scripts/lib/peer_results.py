"""What the scripts read of a record's peers: documents as bench/peers/README.md describes them."""

# Documents of MobileNetV2 in PyTorch: max-autotune takes so long that it has one of its own.
PYTORCH = ("pytorch", "pytorchMaxAutotune")
GRAPH = ("graph",)
COMPILED = ("compile", "compile-graph", "compile-max", "compile-max-graph")
DEFAULT_FORMAT = "channels_last"


def rows(record, documents, key="results"):
    """Rows of MobileNetV2."""
    found = [row for name in documents for row in ((record.get("peers") or {}).get(name) or {}).get(key) or []]
    return [row for row in found if row.get("network") in (None, "", "mobilenet_v2")]


def fastest(results, modes, precision):
    """{batch: row}: the fastest of the modes and of all memory formats."""
    best = {}
    for row in results:
        batch = row["batch"]
        if row["mode"] in modes and row["precision"] == precision and (
                batch not in best or row["median_us"] < best[batch]["median_us"]):
            best[batch] = row
    return best


def variant(row, usual_mode):
    """Which mode and memory format a row is of, without those that are usual: "`compile-max` nchw" or ""."""
    mode, memory_format = row["mode"], row.get("format") or DEFAULT_FORMAT
    named = [f"`{mode}`"] * (mode != usual_mode) + [memory_format] * (memory_format != DEFAULT_FORMAT)
    return " ".join(named)


def kept(earlier, gpu):
    """What a record of these sources starts with, of one of other sources: no peer is made from them. Those of this GPU; with
    --missing they are not measured again. README tells their date where it is another than the custom engine's."""
    peers = {name: document for name, document in (earlier.get("peers") or {}).items() if document.get("gpu") == gpu}
    whole = peers.keys() == (earlier.get("peers") or {}).keys() and "peers" in earlier["stages"]
    return {"peers": peers, "stages": {"peers": earlier["stages"]["peers"]} if whole else {}} if peers else {}
