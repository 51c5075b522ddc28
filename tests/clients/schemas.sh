#!/usr/bin/env bash
# Asks the demo model for an answer under each of a thousand JSON schemas that people use: each is answered, or is refused with a
# reason. The schemas come with the packages that schemas/requirements.txt names, from PyPI into target/clients, which is kept for
# the next time.
#
#   tests/clients/schemas.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/clients/common.sh

here=tests/clients/schemas
# What the packages need to be run does not matter: only their files are read.
python_environment schemas "$here/requirements.txt" --no-deps
python=$clients/schemas/bin/python
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# The processor is enough for one token an answer, and a machine without a GPU has to be told so.
start_server "$clients/schemas.log" --cpu -m models/zinc-demo-q4_k_m.gguf
check "schemas" 3600 "$python" "$here/check.py" "$packages" "$url"
still_serving "$clients/schemas.log"
exit "$failures"
