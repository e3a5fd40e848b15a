#!/usr/bin/env bash
# Installs what the scripts here need: vLLM 0.33.0's own P2P code, unpacked from its wheel, and NIXL; nothing of it is changed or built.
# No torch, no GPU. About 340 MB under $KVPEER_VLLM_CACHE (default ~/.cache/kvpeer-vllm). Python 3.11 or newer.
set -euo pipefail
H=${KVPEER_VLLM_CACHE:-$HOME/.cache/kvpeer-vllm}
mkdir -p "$H/wheels" "$H/ref"
[ -x "$H/venv/bin/python" ] || python3 -m venv "$H/venv"
"$H/venv/bin/pip" install -q msgspec==0.23.0 pyzmq==27.3.0 numpy typing_extensions
"$H/venv/bin/pip" install -q --no-deps nixl-cu12==1.5.1 nixl==1.5.2   # --no-deps: nixl-cu12 names torch but does not need it
if [ ! -d "$H/ref/vllm/v1/kv_offload" ]; then
  "$H/venv/bin/pip" download -q --no-deps -d "$H/wheels" vllm==0.33.0
  (cd "$H/ref" && python3 - "$H"/wheels/vllm-0.33.0-*.whl <<'PY'
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
want = ('vllm/v1/kv_offload/', 'vllm/v1/kv_hints/', 'vllm/distributed/nixl_utils.py', 'vllm/v1/metrics/cache_hit_source.py')
z.extractall('.', [n for n in z.namelist() if n.startswith(want)])
PY
  )
  rm -f "$H"/wheels/vllm-0.33.0-*.whl
fi
touch "$H/ready"
echo "ready: $H/venv/bin/python"
