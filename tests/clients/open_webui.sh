#!/usr/bin/env bash
# Lets Open WebUI talk to zinc's scripted model, by OpenAI's API and then by ollama's, with the settings that README.md names: a chat with
# thoughts, the title that it asks for, a call of one of its tools, a stop, a failure. No browser, no account, loopback alone. The package
# comes from its registry, at the versions that open_webui/requirements.txt names, into target/clients, which is kept for the next time.
#
#   tests/clients/open_webui.sh
#
# It needs Python 3.11 or 3.12 with venv, curl, and 2 GB of disk, for which reason `cargo xtask full` does without it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/clients/common.sh

here=$PWD/tests/clients
# The list is whole, and pip would add what it leaves out.
python_environment open_webui "$here/open_webui/requirements.txt" --no-deps
bin=$clients/open_webui/bin
start_server "$clients/open_webui.log" --fake "$here/open_webui/script.json"

webui=
end() {
    [ -z "$webui" ] || kill "$webui" 2>/dev/null || true
    kill "$server" 2>/dev/null || true
}
trap end EXIT

# It is to ask nobody else: no news of itself, no figures, no models for what it computes itself.
export DO_NOT_TRACK=true ANONYMIZED_TELEMETRY=false SCARF_NO_ANALYTICS=true
export ENABLE_VERSION_UPDATE_CHECK=false OFFLINE_MODE=true HF_HUB_OFFLINE=1
export WEBUI_SECRET_KEY=any ZINC_URL=$url ZINC_KEY=any PYTHONPATH=$here/python

# with API SETTING...: starts Open WebUI with these variables of the environment and no users, and checks it.
with() {
    local api=$1 log=$clients/open_webui-$1.log data=$clients/open_webui-$1 port
    shift
    rm -rf "$data"
    mkdir -p "$data"
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    (cd "$data" && exec env DATA_DIR="$data" "$@" "$bin/open-webui" serve --host 127.0.0.1 --port "$port") >"$log" 2>&1 </dev/null &
    webui=$!
    export WEBUI_URL=http://127.0.0.1:$port WEBUI_API=$api
    for _ in {1..1200}; do
        if curl --silent --fail --output /dev/null "$WEBUI_URL/health"; then
            check "open-webui ($api)" 600 "$bin/python" "$here/open_webui/check.py"
            break
        fi
        kill -0 "$webui" 2>/dev/null || break
        sleep 0.1
    done
    kill "$webui" 2>/dev/null || fail "Open WebUI has ended; see $log"
    wait "$webui" || true
    webui=
}

with openai OPENAI_API_BASE_URL="$url/v1" OPENAI_API_KEY=any ENABLE_OLLAMA_API=false
with ollama OLLAMA_BASE_URL="$url" ENABLE_OPENAI_API=false
still_serving "$clients/open_webui.log"
exit "$failures"
