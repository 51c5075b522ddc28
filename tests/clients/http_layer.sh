#!/usr/bin/env bash
# Measures what HTTP, text work and JSON take by themselves: the scripted model says 1,000 tokens to each of some clients, streamed, as fast
# as they are read, and then one by one every 3 ms. Prints the tokens of a second, and the cores that the server keeps busy. The clients are
# oha's, which cargo installs into target/clients, where it is kept for the next time.
#
#   tests/clients/http_layer.sh [SECONDS FOR EACH]
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/clients/common.sh

seconds=${1:-20}
# A build for development would be measured else.
profile=release
oha=$clients/oha/bin/oha
if ! [ -x "$oha" ]; then
    cargo install --quiet --locked --root "$clients/oha" --version 1.16.0 oha
fi
body='{"messages": [{"role": "user", "content": "Hi"}], "stream": true}'

# counter NAME: the value of a counter of the server.
counter() {
    curl --silent --show-error "$url/metrics" | awk -v name="$1" '$1 == name { print $2 }'
}

# busy: the seconds of processor that the server has taken.
busy() {
    awk -v ticks="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / ticks }' "/proc/$server/stat"
}

# measure CLIENTS TOKEN_MS
measure() {
    local script=$clients/http_layer.json reply=$clients/http_layer_oha.json text tokens cores start
    text=$(printf 'token %.0s' {1..1000})
    printf '{ "context": 100000, "lanes": %d, "queue": %d, "answers": [{ "token_ms": %d, "text": "%s" }] }' "$1" "$1" "$2" "$text" >"$script"
    start_server "$clients/http_layer.log" --fake "$script"
    tokens=$(counter zinc_tokens_predicted_total) cores=$(busy) start=$EPOCHREALTIME
    "$oha" --no-tui --output-format json --wait-ongoing-requests-after-deadline -z "${seconds}s" -c "$1" -m POST \
        -H 'Content-Type: application/json' -d "$body" "$url/v1/chat/completions" >"$reply"
    python3 - "$reply" "$1" "$2" "$start" "$EPOCHREALTIME" "$tokens" "$(counter zinc_tokens_predicted_total)" "$cores" "$(busy)" <<'PYTHON'
import json
import sys

reply, clients, pause = json.load(open(sys.argv[1])), *sys.argv[2:4]
start, end, tokens_before, tokens_after, busy_before, busy_after = map(float, sys.argv[4:])
statuses, errors = reply["statusCodeDistribution"], reply["errorDistribution"]
took, tokens, busy = end - start, tokens_after - tokens_before, busy_after - busy_before
print(f"{clients} clients, a token every {pause} ms: {tokens / took:.0f} tokens/s, {busy / took:.2f} cores, {busy / tokens * 1e6:.1f} us a token")
print(f"  statuses {statuses}, errors {errors}")
sys.exit(0 if set(statuses) == {"200"} and not errors else 1)
PYTHON
    kill "$server"
    wait "$server" || true
}

measure 8 0
measure 64 3
