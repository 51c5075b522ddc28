# What the scripts of this directory share; they source it at the top of the source tree, under `set -euo pipefail`.

# Where packages of other makers are kept for the next time.
clients=$PWD/target/clients
mkdir -p "$clients"
# Python leaves no files beside the checks.
export PYTHONDONTWRITEBYTECODE=1

# How zinc is built: `dev`, or `release` for measuring.
profile=dev

# start_server LOG FLAGS OF zinc serve...: serves a model at $url until this shell ends. Returns once it is loaded.
start_server() {
    local log=$1
    shift
    # For the whole workspace, as tests are: for one package alone cargo would choose other features of dependencies and build these again.
    cargo build --quiet --locked --workspace --bin zinc --profile "$profile"
    : >"$log"
    # Cargo keeps the profile `dev` in a directory of another name.
    "target/${profile/#dev/debug}/zinc" serve --port 0 "$@" 2>"$log" &
    server=$!
    trap 'kill "$server" 2>/dev/null || true' EXIT
    for _ in {1..1200}; do
        # The address comes first.
        if grep -q '^serving ' "$log"; then
            url=$(grep -o -m 1 'http://127\.0\.0\.1:[0-9]*' "$log")
            return
        fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "the server has not started; see $log" >&2
    exit 1
}

# python_environment NAME REQUIREMENTS [FLAGS OF pip install...]: makes target/clients/NAME a Python environment with these packages,
# unless it is one already.
python_environment() {
    local directory=$clients/$1 requirements=$2
    shift 2
    if ! cmp --silent "$requirements" "$directory/installed.txt"; then
        rm -rf "$directory"
        python3 -m venv "$directory"
        "$directory/bin/pip" install --quiet --disable-pip-version-check --no-input --only-binary :all: "$@" \
            --requirement "$requirements"
        cp "$requirements" "$directory/installed.txt"
    fi
}

failures=0

# fail MESSAGE: notes a failure; scripts end with the number of all.
fail() {
    echo "$1" >&2
    failures=$((failures + 1))
}

# check NAME LIMIT COMMAND...: runs a check, for LIMIT seconds at most.
check() {
    local name=$1 limit=$2
    shift 2
    timeout "$limit" "$@" </dev/null || fail "$name: failed"
}

# still_serving LOG: fails if the server has ended.
still_serving() {
    kill -0 "$server" 2>/dev/null || fail "the server has ended; see $1"
}
