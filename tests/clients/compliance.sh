#!/usr/bin/env bash
# Compares zinc's answers with the schemas of OpenAI's, Anthropic's and the open responses API (llm-comply), and sends thousands
# of right and wrong requests that are made of zinc's own description of itself, /openapi.json (schemathesis): no server error, and
# no status that is not described. No GPU, no account, loopback alone; both programs come from PyPI into target/clients, which is
# kept for the next time.
#
#   tests/clients/compliance.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/clients/common.sh

# Requests that schemathesis has to send at least, and the most that it makes up for each path besides those that it always sends.
least_requests=5000 random_requests=50

here=tests/clients/compliance
python_environment compliance "$here/requirements.txt"
bin=$clients/compliance/bin
start_server "$clients/compliance.log" --fake "$here/script.json"

check "llm-comply" 600 "$bin/python" "$here/comply.py" "$bin/llm-comply" "$url"

# The seed makes the requests the same each time. What schemathesis keeps of a run would change those of the next.
checks=not_a_server_error,status_code_conformance,content_type_conformance,unsupported_method
flags=(--checks "$checks" --max-examples "$random_requests" --seed 1 --continue-on-failure --warnings off)
report=$clients/schemathesis.log
rm -rf "$clients/.hypothesis"
if (cd "$clients" && "$bin/schemathesis" run "$url/openapi.json" "${flags[@]}") >"$report"; then
    sent=$(grep -o '[0-9]* generated' "$report" | cut -d ' ' -f 1)
    echo "schemathesis: $sent requests, none answered by a server error or a status that is not described"
    if [ "$sent" -lt "$least_requests" ]; then
        fail "schemathesis: $least_requests requests at least were to be sent"
    fi
else
    cat "$report" >&2
    fail "schemathesis: see above"
fi
still_serving "$clients/compliance.log"
exit "$failures"
