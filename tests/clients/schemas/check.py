"""Asks a server for an answer under each of a thousand JSON schemas that people use.

Each is answered, or is refused with a reason. Times are reported.

    check.py PACKAGES URL       (PACKAGES: where the Python packages cfn-lint and kubernetes-validate are installed)
"""

import collections
import concurrent.futures
import json
import pathlib
import re
import statistics
import sys
import time
import urllib.error
import urllib.request

# Schemas of each package, taken evenly from the sorted names of all.
EACH = 500
# Answers that have to come at least: if zinc refused nearly all schemas, nothing else here would fail.
LEAST_ANSWERED = 750
# The longest wait for one answer, behind which the server counts as stuck.
PATIENCE_S = 120
# Requests at a time.
CLIENTS = 2


def evenly(names):
    """At most EACH of the names, evenly."""
    names = sorted(names)
    return [names[place * len(names) // EACH] for place in range(EACH)] if len(names) > EACH else names


def resources_of_aws(packages):
    """The schemas of resources of AWS, by file name."""
    for path in evenly(packages.glob("cfnlint/data/schemas/resources/*.json")):
        yield f"aws {path.stem}", json.loads(path.read_text())


def objects_of_kubernetes(packages):
    """The schemas of objects of the newest Kubernetes, by file name. Each gets the definitions that it refers to, which have a file of their own."""
    versions = [path for path in packages.glob("kubernetes_validate/kubernetes-json-schema/v*-local")]
    newest = max(versions, key=lambda path: [int(part) for part in path.name[1:].split("-")[0].split(".")])
    definitions = json.loads((newest / "_definitions.json").read_text())
    definitions = definitions.get("$defs") or definitions["definitions"]
    for path in evenly(path for path in newest.glob("*.json") if path.name != "_definitions.json"):
        schema, used = json.loads(path.read_text()), {}
        waiting = [schema]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                if isinstance(value.get("$ref"), str):
                    name = value["$ref"].rsplit("/", 1)[1]
                    value["$ref"] = f"#/$defs/{name}"
                    if name not in used:
                        used[name] = json.loads(json.dumps(definitions[name]))
                        waiting.append(used[name])
                waiting.extend(value.values())
            elif isinstance(value, list):
                waiting.extend(value)
        if used:
            schema["$defs"] = used
        yield f"kubernetes {path.stem}", schema


def ask(url, schema):
    """Asks for one token under a schema. Returns the seconds that it took and the reason of a refusal, which is None for an answer."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "temperature": 0}
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "schema", "schema": schema}}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    start, refused = time.monotonic(), None
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            json.load(reply)
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        fields = json.loads(text)["error"]
        if error.code != 400 or not fields["param"] or not fields["message"]:
            raise AssertionError(f"status {error.code}: {text}") from error
        refused = fields["message"]
    return time.monotonic() - start, refused


def main(packages, url):
    packages = pathlib.Path(packages)
    schemas = dict([*resources_of_aws(packages), *objects_of_kubernetes(packages)])
    plain = statistics.median(ask(url, None)[0] for _ in range(9))
    times, reasons, failed = {}, collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        asked = {clients.submit(ask, url, schema): name for name, schema in schemas.items()}
        for answer in concurrent.futures.as_completed(asked):
            name = asked[answer]
            try:
                times[name], refused = answer.result()
            except Exception as error:
                failed.append(f"{name}: {error}")
                continue
            if refused:
                # Without names, places and patterns, so that like refusals are counted together.
                reasons[re.sub(r"at character .*", "", re.sub(r'"[^"]*"', '""', refused.split("cannot be used: ", 1)[-1]))] += 1
    refused = sum(reasons.values())
    print(f"schemas: {len(schemas)}, of which {len(times) - refused} are answered and {refused} are refused with a reason")
    print(f"  {plain:.3f} s is the median without a schema")
    for name in sorted(times, key=times.get, reverse=True)[:5]:
        print(f"  {times[name]:.3f} s {name}")
    print(f"  {sum(took > 1 for took in times.values())} took longer than 1 s")
    for reason, count in reasons.most_common():
        print(f"  refused, {count} times: {reason}")
    for failure in failed:
        print(f"  {failure}", file=sys.stderr)
    if len(times) - refused < LEAST_ANSWERED:
        print(f"  at least {LEAST_ANSWERED} were to be answered", file=sys.stderr)
        return 1
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
