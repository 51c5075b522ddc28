"""Runs llm-comply for each API that zinc and it both know. Fails if a test fails that is not known to, or if one that is known to fail passes.

    comply.py PROGRAM URL
"""

import json
import subprocess
import sys

# What a test that fails says of the status, and why that is right.
IMAGES = ("HTTP 400 ", "the models read text; an image is refused by name")
NO_MODEL = ("HTTP 200 ", "a request need not name the model, since a server has one")

# The form of the API, and the name of a model for which llm-comply does not leave out its tests of thinking.
APIS = {"openai-chat": "o1", "open-responses": "o1", "anthropic": "claude-4"}

# The tests that fail.
KNOWN = {
    "chat-image-input": IMAGES,
    "chat-error-handling": NO_MODEL,
    "image-input": IMAGES,
    "error-handling": NO_MODEL,
    "anth-image-input": IMAGES,
}


def results(program, url, form, model):
    """What llm-comply finds for one API: a list of results."""
    command = [program, "--json", "--format", form, "-u", f"{url}/v1", "-m", model, "-k", "any"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return json.loads(ran.stdout)["results"]


def main(program, url):
    wrong = set(KNOWN)
    for form, model in APIS.items():
        found = results(program, url, form, model)
        passed = sum(result["status"] == "passed" for result in found)
        print(f"llm-comply: {form}: {passed} of {len(found)} tests passed")
        for result in found:
            name, details = result["id"], "; ".join(result.get("errors", []) + result.get("warnings", []))
            status, reason = KNOWN.get(name, (None, None))
            if result["status"] == "failed" and status and details.startswith(status):
                wrong.discard(name)
                print(f"  {name} fails as it should: {reason}")
            elif result["status"] != "passed":
                wrong.add(name)
                print(f"  {name} {result['status']}: {details}", file=sys.stderr)
            elif details:
                print(f"  {name}: {details}")
    if wrong:
        print(f"llm-comply: not as expected: {', '.join(sorted(wrong))}", file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
