#!/usr/bin/env bash
# make servers: real servers on loopback, tiny models, one conformance suite; writes benchmarks/servers.md.
#   scripts/servers/servers.sh PYTHON [transformers] [vllm] [llama-cpp] [llama-server]
# RECORD=1 also writes the exchanges that `make test` replays (tests/fixtures/servers/).
# Environments of their own under .venvs/ (cached). They see the packages of the given Python, torch above all.
set -uo pipefail
cd "$(dirname "$0")/../.."
python=$1; shift
wanted=("$@"); [ ${#wanted[@]} -eq 0 ] && wanted=(transformers vllm llama-cpp llama-server)
venvs=.venvs rows=$PWD/.venvs/rows models=.venvs/models source=.venvs/llama-source
mkdir -p "$rows"
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE=1
export PYTHONPATH=$PWD/src
shared=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')

environment() {  # environment NAME PIP-ARGUMENT...
  local name=$1; shift
  [ -e "$venvs/$name/.ready" ] && return
  "$python" -m venv --without-pip "$venvs/$name"
  echo "$shared" > "$("$venvs/$name/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/shared.pth"
  "$python" -m pip --python "$venvs/$name/bin/python" install -q "$@" && touch "$venvs/$name/.ready"
}

serve() {  # serve ROW NAME PROVIDER MODEL PORT TRUTH -- COMMAND...
  local row=$1 name=$2 provider=$3 model=$4 port=$5 truth=$6; shift 7
  "$@" > "$venvs/$row.log" 2>&1 &
  local server=$!
  for _ in $(seq 300); do
    "$python" - "$port" <<'P' && break
import socket, sys
sys.exit(socket.socket().connect_ex(("127.0.0.1", int(sys.argv[1]))) != 0)
P
    kill -0 $server 2>/dev/null || { echo "$name did not start: see $venvs/$row.log"; return 1; }
    sleep 1
  done
  sleep 2
  local record=()
  [ -n "${RECORD:-}" ] && { mkdir -p tests/fixtures/servers; record=(--record "tests/fixtures/servers/$row.json"); }
  "$python" scripts/servers/conformance.py --name "$name" --provider "$provider" --model "$model" \
    --url "http://127.0.0.1:$port/v1" --truth "$venvs/truth-$truth.json" --out "$rows/$row.json" "${record[@]}"
  "$python" scripts/servers/whole_run.py "http://127.0.0.1:$port/v1" "$provider" "$model" "$rows/$row.json"
  kill $server; wait $server 2>/dev/null
}

llama_source() {  # the sdist of llama-cpp-python holds llama.cpp's source
  [ -e "$source/pyproject.toml" ] && return
  environment llama scikit-build-core pathspec ninja cmake pip setuptools
  "$python" -m pip download -q --no-deps --no-binary llama-cpp-python llama-cpp-python -d "$venvs/sdist" --no-build-isolation \
    || "$venvs/llama/bin/python" -m pip download -q --no-deps --no-build-isolation --no-binary llama-cpp-python llama-cpp-python -d "$venvs/sdist"
  mkdir -p "$source" && tar -xzf "$venvs"/sdist/llama_cpp_python-*.tar.gz -C "$source" --strip-components=1
}

environment tf transformers tokenizers safetensors accelerate uvicorn fastapi gguf sentencepiece protobuf
$venvs/tf/bin/python scripts/servers/train_tiny.py $models
[ -e $models/base.gguf ] || $venvs/tf/bin/python scripts/servers/to_gguf.py $models/base $models/base.gguf
[ -e $models/base-nobos.gguf ] || $venvs/tf/bin/python scripts/servers/to_gguf.py $models/base $models/base-nobos.gguf --no-bos
[ -e $models/spm.gguf ] || $venvs/tf/bin/python scripts/servers/to_gguf.py $models/spm $models/spm.gguf
truth() { [ -e "$venvs/truth-$1.json" ] || $venvs/tf/bin/python scripts/servers/truth.py "$models/$2" "$venvs/truth-$1.json" "${@:3}"; }
truth base base
truth base-bos base --bos
truth spm spm --bos --template $'Question: {{ context }}\nAnswer:' --eos '</s>'

for one in "${wanted[@]}"; do
  case $one in
    transformers)
      version=$($venvs/tf/bin/python -c 'import transformers; print(transformers.__version__)')
      serve transformers "transformers serve $version" openai-compatible $models/base 8802 base -- \
        $venvs/tf/bin/transformers serve $models/base --host 127.0.0.1 --port 8802 --dtype float32 --device cpu ;;
    vllm)
      environment vllm vllm-cpu
      site=$($venvs/vllm/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
      # The CUDA builds of these do not load beside a CPU torch, and a text model needs none of them.
      rm -rf "$site"/torchvision* "$site"/torchaudio* "$site"/torchcodec*
      version=$($venvs/vllm/bin/python -c 'from importlib.metadata import version; print(version("vllm-cpu"))')
      # vLLM asks for its version under its own name, and reads "cpu" in it as the device.
      mkdir -p "$site/vllm-$version.dist-info"
      printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$site/vllm-$version.dist-info/METADATA"
      serve vllm "vLLM $version (CPU, float32)" vllm base 8801 base -- \
        $venvs/vllm/bin/vllm serve $models/base --served-model-name base --dtype float32 \
        --max-model-len 2048 --host 127.0.0.1 --port 8801 --enforce-eager --max-num-seqs 16 ;;
    llama-cpp)
      llama_source
      [ -e $venvs/llama/.server ] || { "$python" -m pip --python $venvs/llama/bin/python install -q --no-build-isolation \
        "$source[server]" && touch $venvs/llama/.server; }
      version=$($venvs/llama/bin/python -c 'import llama_cpp; print(llama_cpp.__version__)')
      for model in base spm base-nobos; do
        truth=${model/#base/base-bos}; truth=${truth/base-bos-nobos/base}
        serve llama-cpp-$model "llama-cpp-python $version, $model.gguf" llama-cpp $model 8804 $truth -- \
          $venvs/llama/bin/python -m llama_cpp.server --model $models/$model.gguf --host 127.0.0.1 --port 8804 \
          --logits_all true --n_ctx 2048 --n_threads 1 --n_threads_batch 1 --type_k 0 --type_v 0
      done ;;
    llama-server)
      llama_source
      build=$venvs/llama-build
      [ -e $build/bin/llama-server ] || { cmake -S $source/vendor/llama.cpp -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_WEBUI=OFF \
        && cmake --build $build --target llama-server; } > $venvs/llama-build.log 2>&1
      version="of llama-cpp-python $(sed -n 's/^__version__ = "\(.*\)"/\1/p' $source/llama_cpp/__init__.py)"
      for model in base spm; do
        truth=${model/#base/base-bos}
        serve llama-server-$model "llama-server ($version), $model.gguf" llama-server $model 8803 $truth -- \
          $build/bin/llama-server -m $models/$model.gguf --host 127.0.0.1 --port 8803 -c 8192 -np 4 -t 1 -ctk f32 -ctv f32 -fa off
      done ;;
  esac
done
"$python" scripts/servers/table.py "$rows" benchmarks/servers.md
