"""A stand-in of kubectl, which sends what it is asked to the test's cluster."""

import json
import sys
import urllib.request
from pathlib import Path

ADDRESS = "CLUSTER_API"
KINDS = {"job.batch": "Job", "statefulset.apps": "StatefulSet", "deployment.apps": "Deployment"}


def install(folder, *, api):
    """Write the program into a folder for PATH."""
    folder.mkdir()
    program = folder / "kubectl"
    text = Path(__file__).read_text().replace('"CLUSTER_' + 'API"', repr(api))
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    return folder


def call(name, *arguments):
    body = json.dumps({"call": name, "arguments": arguments}).encode()
    with urllib.request.urlopen(urllib.request.Request(ADDRESS, data=body)) as answer:
        return json.load(answer)


def main(verb, *arguments):
    options = dict(part[2:].partition("=")[::2] for part in arguments if part.startswith("--"))
    if verb in ("apply", "delete"):
        call(verb, arguments[arguments.index("-f") + 1])
    elif verb == "get":
        found = call("get", KINDS[arguments[0]], arguments[1])
        sys.stdout.write("" if found is None else json.dumps(found))
    elif verb == "logs":
        selector = dict(part.split("=") for part in options["selector"].split(","))
        sys.stdout.writelines(f"{line}\n" for line in call("logs", selector))
    else:
        sys.exit(f"unknown verb {verb}")


if __name__ == "__main__":
    main(*sys.argv[1:])
