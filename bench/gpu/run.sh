#!/usr/bin/env bash
# bench/gpu/run.sh [RESULTS]: for a machine with a GPU. Builds the libraries of GPUs, checks the kernels and all ops on each
# device that is there, times the kernels, and networks beside torch.compile. Needs cmake, a C++ compiler, what building
# Minnow needs, nvcc for CUDA, and PyTorch for the networks. Writes a log of each step into RESULTS, and goes on after a failure.
#
#   PYTHON=python3 NETWORKS="resnet50:1 vit_s:32" bench/gpu/run.sh results
#   BUILT=1 bench/gpu/run.sh results       where build/gpu was built on another machine
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
unset PYTHONDONTWRITEBYTECODE
results=$(mkdir -p "${1:-build/gpu_results}" && cd "${1:-build/gpu_results}" && pwd)
python=${PYTHON:-python3}
networks=${NETWORKS:-resnet50:1 resnet50:32 mobilenetv2:1 mobilenetv2:32 vit_s:1 vit_s:32}
failed=()

# step NAME SECONDS COMMAND ...: runs it with its output in NAME.log, and prints how it ended.
step() {
  local name=$1 seconds=$2 begin=$SECONDS status
  timeout "$seconds" "${@:3}" >"$results/$name.log" 2>&1
  status=$?
  ((status == 0)) || failed+=("$name")
  printf '%-24s status %3d  %4d s\n' "$name" "$status" $((SECONDS - begin))
}

configure() {
  cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DMINNOW_CUDA=AUTO -DMINNOW_OPENCL=AUTO -DMINNOW_VULKAN=AUTO \
    "-DMINNOW_CUDA_ARCHITECTURES=${MINNOW_CUDA_ARCHITECTURES:-90a}"
}
if [[ -z ${BUILT:-} ]]; then
  export -f configure
  step configure 120 bash -c configure
  step build 1800 cmake --build build/gpu
  step programs 1800 cmake --build build/gpu --target cuda_programs
  step package 1800 "$python" -m pip install --no-build-isolation --no-deps --target build/gpu/site --upgrade .
fi

export PYTHONPATH=$PWD/build/gpu/site:$PWD/bench/gpu${PYTHONPATH:+:$PYTHONPATH} MINNOW_BACKENDS=$PWD/build/gpu MINNOW_CALIBRATION=off
# Each tile of the products is a process of its own: one that fails must not take the others along.
products() { build/gpu/cuda_check_products list | xargs -P 6 -n 1 timeout 60 build/gpu/cuda_check_products check; }
for program in build/gpu/cuda_check_*; do
  case $program in
    */cuda_check_products) export -f products && step check_products 600 bash -c products ;;
    *) step "${program##*/cuda_}" 300 "$program" ;;
  esac
done
for device in cuda vulkan opencl; do
  [[ -e build/gpu/libminnow_$device.so ]] || continue
  MINNOW_TEST_DEVICES=$device step "ops_$device" 900 "$python" -P -m pytest -q -p no:cacheprovider tests/kernels/gpu
done
for program in build/gpu/cuda_time_*; do step "${program##*/cuda_}" 300 "$program"; done

mkdir -p build/gpu/networks
# shellcheck disable=SC2086
step prepare_networks 900 "$python" -P bench/gpu/prepare.py build/gpu/networks $networks
# shellcheck disable=SC2086
step time_integers 300 "$python" -P bench/gpu/integers.py
step time_networks 1800 "$python" -P bench/gpu/compare.py build/gpu/networks $networks
grep -h "|" "$results/time_networks.log" 2>/dev/null

echo "logs: $results"
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}"; exit 1; }
