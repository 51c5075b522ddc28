"""What the checks of all Python libraries share: where the server is, what the scripted model says, and how checks are run."""

import json
import os
import sys
import time
import traceback
import urllib.request

URL = os.environ["ZINC_URL"]
KEY = os.environ["ZINC_KEY"]

# What the script has for the words "Hi", "think" and "person", and for the result of a tool.
HELLO = "Grüße from zinc, twice: Hi"
THOUGHT, ANSWER = "Six times seven.", "It is 42."
PERSON = {"name": "Ada", "age": 36}
RAIN = "It rains in Ülm."

# The tool that the script calls for the word "weather", and its arguments.
ARGUMENTS = {"city": "Ulm", "days": 3}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}

# The longest wait for a lane to be free. It is far more than that takes.
PATIENCE_S = 20


def same(actual, expected):
    """Fails unless two values are equal."""
    if actual != expected:
        raise AssertionError(f"expected {expected!r}, got {actual!r}")


def fails(error, call):
    """The error of this class that a call raises. Fails if it raises none."""
    try:
        call()
    except error as raised:
        return raised
    raise AssertionError(f"expected {error.__name__}, and nothing was raised")


def wait_until_free():
    """Waits until no lane of the server is taken. The answer to "endless" keeps its lane until its client leaves."""
    wait_for_lanes(lambda taken: not any(taken), "a lane is still taken")


def wait_until_taken():
    """Waits until a lane of the server is taken."""
    wait_for_lanes(any, "no lane is taken")


def wait_for_lanes(is_so, otherwise):
    """Waits until `is_so` of a list that says of each lane of the server whether it is taken. Fails with `otherwise`."""
    request = urllib.request.Request(f"{URL}/slots", headers={"Authorization": f"Bearer {KEY}"})
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            if is_so([lane["is_processing"] for lane in json.load(reply)]):
                return
        time.sleep(0.02)
    raise AssertionError(f"{otherwise} after {PATIENCE_S} s")


def run(library, checks):
    """Runs the functions of a dictionary whose names begin with `check_`, and ends the program with their outcome."""
    failed = 0
    found = [(name, check) for name, check in checks.items() if name.startswith("check_")]
    for name, check in found:
        try:
            check()
        except Exception:
            failed += 1
            print(f"{library}: {name} failed", file=sys.stderr)
            traceback.print_exc()
    print(f"{library}: {len(found) - failed} of {len(found)} checks passed")
    sys.exit(1 if failed or not found else 0)
