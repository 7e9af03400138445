#!/usr/bin/env python3
"""check_report.py REPORT SCHEMA PAGE: the report follows the schema; the page is well-formed and refers to nothing."""
import json
import sys
import xml.etree.ElementTree as ElementTree

report, schema, page = sys.argv[1:]
try:
    import jsonschema
except ImportError:
    print("skipped: this machine has no python3-jsonschema")
    sys.exit()

with open(report) as file:
    document = json.load(file)
with open(schema) as file:
    rules = json.load(file)
jsonschema.Draft7Validator.check_schema(rules)
jsonschema.Draft7Validator(rules).validate(document)

with open(page, encoding="utf-8") as file:
    doctype, html = file.read().split("\n", 1)
assert doctype == "<!DOCTYPE html>", doctype
for element in ElementTree.fromstring(html).iter():
    assert element.tag not in ("script", "link", "img", "iframe"), element.tag
    assert not {"src", "href"} & set(element.attrib), element.attrib
assert "url(" not in html and "@import" not in html
