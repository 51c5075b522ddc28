#!/usr/bin/env bash
# Lets five agents write a file each by a tool call, against zinc's scripted model: no GPU, no account, loopback alone. Their packages come from npm, at
# the versions below, into a directory that is kept for the next time.
#
#   tests/clients/agents.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/clients/common.sh

packages=(@openai/codex@0.171.0 @anthropic-ai/claude-code@2.1.197 opencode-ai@1.18.33 cline@3.0.65 @continuedev/cli@1.5.47)

directory=$clients/agents
rm -rf "$directory/work" "$directory/home"
mkdir -p "$directory/work" "$directory/home/.codex"
npm install --silent --no-audit --no-fund --prefix "$directory" "${packages[@]}"

# Each agent calls the tool that it has for files or commands, by the words of its task.
cat >"$directory/script.json" <<SCRIPT
{ "context": 10000000, "answers": [
  { "when": "codex-task", "after_tool": false, "reasoning": "I write it.", "text": "I write the file.",
    "tool_calls": [{ "name": "exec_command", "arguments": { "cmd": "echo grün > $directory/work/codex.txt" } }] },
  { "when": "claude-task", "after_tool": false, "reasoning": "I write it.", "text": "I write the file.",
    "tool_calls": [{ "name": "Write", "arguments": { "file_path": "$directory/work/claude.txt", "content": "grün\n" } }] },
  { "when": "opencode-task", "after_tool": false, "reasoning": "I write it.", "text": "I write the file.",
    "tool_calls": [{ "name": "write", "arguments": { "filePath": "$directory/work/opencode.txt", "content": "grün\n" } }] },
  { "when": "cline-task", "after_tool": false, "reasoning": "I write it.", "text": "I write the file.",
    "tool_calls": [{ "name": "editor", "arguments": { "path": "$directory/work/cline.txt", "new_text": "grün\n" } }] },
  { "when": "continue-task", "after_tool": false, "reasoning": "I write it.", "text": "I write the file.",
    "tool_calls": [{ "name": "Write", "arguments": { "filepath": "$directory/work/continue.txt", "content": "grün\n" } }] },
  { "after_tool": true, "text": "Done." },
  { "text": "Hello." } ] }
SCRIPT
start_server "$directory/serve.log" --fake "$directory/script.json"
cat >"$directory/home/.codex/config.toml" <<CONFIG
model = "zinc"
model_provider = "zinc"

[model_providers.zinc]
name = "zinc"
base_url = "$url/v1"
wire_api = "responses"
CONFIG
cat >"$directory/work/opencode.json" <<CONFIG
{
  "provider": {
    "zinc": {
      "npm": "@ai-sdk/openai-compatible",
      "options": { "baseURL": "$url/v1" },
      "models": { "zinc": {} }
    }
  },
  "model": "zinc/zinc"
}
CONFIG

cat >"$directory/work/continue.yaml" <<CONFIG
name: zinc
version: 1.0.0
schema: v1
models:
  - name: zinc
    provider: openai
    model: zinc
    apiBase: $url/v1
    apiKey: any
    roles: [chat, edit, apply]
CONFIG

# Cline leaves a process behind, whose id is in this file.
cline_hub=$directory/home/.cline/data/locks/hub/production.json
end() {
    kill "$server" 2>/dev/null || true
    local hub
    hub=$(sed -n 's/^ *"pid": \([0-9]*\).*/\1/p' "$cline_hub" 2>/dev/null || true)
    [ -z "$hub" ] || kill "$hub" 2>/dev/null || true
}
trap end EXIT

export HOME="$directory/home"
export ANTHROPIC_BASE_URL="$url" ANTHROPIC_API_KEY=any
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1 CONTINUE_TELEMETRY_ENABLED=0
cd "$directory/work"
bin=$directory/node_modules/.bin

# agent NAME COMMAND...: runs an agent, for two minutes at most, and looks at the file that it should have written.
agent() {
    local name=$1 status=0
    shift
    timeout 120 "$@" >"$directory/$name.log" 2>&1 </dev/null || status=$?
    if [ "$status" -eq 0 ] && [ "$(cat "$name.txt" 2>/dev/null)" = grün ]; then
        echo "$name: wrote its file"
    else
        fail "$name: failed with status $status; see $directory/$name.log and $directory/serve.log"
    fi
}

# Codex's own sandbox needs rights that containers do not give; the scripted command only writes into this directory.
agent codex "$bin/codex" exec --skip-git-repo-check --sandbox danger-full-access "codex-task: write the file"
agent claude "$bin/claude" --print --permission-mode acceptEdits --allowedTools Write -- "claude-task: write the file"
agent opencode "$bin/opencode" run "opencode-task: write the file"
"$bin/cline" auth openai -k any -m zinc -b "$url/v1" >"$directory/cline-auth.log" 2>&1 </dev/null
agent cline "$bin/cline" "cline-task: write the file"
agent continue "$bin/cn" --config continue.yaml --auto -p "continue-task: write the file"
exit "$failures"
