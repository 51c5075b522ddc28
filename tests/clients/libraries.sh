#!/usr/bin/env bash
# Lets client libraries of other makers talk to zinc's scripted model: no GPU, no account, loopback alone. With each a conversation
# is answered, whole and streamed, a tool is called and its result handed in, and so on; see the files `with_*`. The libraries come
# from the package registries, at the versions that the files of requirements and the locks name, into target/clients, which is kept
# for the next time.
#
#   tests/clients/libraries.sh          all libraries: needs Python with venv, npm and cargo
#   tests/clients/libraries.sh fast     those of OpenAI, Anthropic and ollama in Python, which take little to install
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/clients/common.sh

here=tests/clients
start_server "$clients/libraries.log" --fake "$here/script.json" --api-key key
export ZINC_URL=$url ZINC_KEY=key

if [ "${1:-}" = fast ]; then
    python_environment python-fast "$here/python/requirements-fast.txt"
    python=$clients/python-fast/bin/python libraries=(openai anthropic ollama)
else
    python_environment python "$here/python/requirements.txt"
    python=$clients/python/bin/python libraries=(openai anthropic ollama pydantic_ai langchain litellm)
fi
for library in "${libraries[@]}"; do
    check "$library" 300 "$python" "$here/python/with_$library.py"
done
still_serving "$clients/libraries.log"
[ "${1:-}" = fast ] && exit "$failures"

# Node finds packages beside the files that import them.
mkdir -p "$clients/node"
cp "$here"/node/package*.json "$here"/node/*.mjs "$clients/node"
npm ci --prefix "$clients/node" --silent --no-audit --no-fund
for library in openai ai_sdk; do
    check "$library (Node)" 300 node "$clients/node/with_$library.mjs"
done

export CARGO_TARGET_DIR=$clients/rust
cargo build --quiet --locked --manifest-path "$here/rust/Cargo.toml"
check "async-openai" 300 "$clients/rust/debug/zinc-clients"
still_serving "$clients/libraries.log"
exit "$failures"
