#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# All that has to be checked on a machine with a GPU, in one report:
#   tests/gpu/first_run.sh [REPORT]      default: gpu_report.md
# It wants a Python that has torch_nntile with CUDA (CUDA=1 sh tools/wheel.sh), PyTorch's CUDA build, pytest,
# pytest-xdist and hypothesis: PYTHON=python3. COLUMNS is the program cuda-columns of `make cuda`, if it is there.
# PARTS="kernels workers speed models suite": fewer of them. LIMIT=300: seconds for each. JOBS=8: of the suite.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
report=$(realpath "${1:-gpu_report.md}")
PYTHON=${PYTHON:-python3}
LIMIT=${LIMIT:-300}
COLUMNS=${COLUMNS:-$root/build/cuda/tests/cuda_emulation/cuda-columns}
export PYTHONPATH="$root/tests${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 TRANSFORMERS_VERBOSITY=error
cd "$(mktemp -d)" # the source tree is no package of its own here

say() { echo "$@" >> "$report"; }
# part TITLE LINES COMMAND...: the last LINES lines of what it says, the time it took, and how it ended. Tests that
# passed are left out, so that those that failed are there also where the time was up.
part() {
    title=$1 lines=$2
    shift 2
    start=$(date +%s)
    timeout -k 10 "$LIMIT" "$@" > output 2>&1
    status=$?
    say "" "## $title" "" '```'
    grep -v ' PASSED ' output | tail -n "$lines" >> "$report"
    say '```'
    say "Exit code $status, $(($(date +%s) - start)) s."
    echo "$title: exit code $status, $(($(date +%s) - start)) s"
}

: > "$report"
say "# A run on a GPU"
part machine 60 sh -c 'nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader; nproc
    uname -m; '"$PYTHON"' -m torch_nntile.diagnose'
for name in ${PARTS:-kernels workers speed models suite}; do
    case $name in
    kernels)
        where='import importlib.util as u; print(u.find_spec("torch_nntile").submodule_search_locations[0])'
        package=$($PYTHON -c "$where")
        cuda=$($PYTHON -c 'import torch; print(*torch.__path__)')/../nvidia/cu13/lib
        for program in "$COLUMNS" $(dirname "$COLUMNS")/cuda-test_* $(dirname "$COLUMNS")/cuda-map_code; do
            [ ! -x "$program" ] || part "$(basename "$program")" 60 \
                env LD_LIBRARY_PATH="$package:$package.libs:$cuda" "$program"
        done
        ;;
    workers)
        part "tests/cuda" 60 env STARPU_NCUDA=1 $PYTHON -m pytest -q -p no:cacheprovider "$root/tests/cuda"
        ;;
    suite)
        part "tests/torch" 120 env STARPU_NCUDA=1 $PYTHON -m pytest -v --tb=line -p no:cacheprovider \
            -n "${JOBS:-8}" --dist worksteal -m "not slow and not bench" "$root/tests/torch"
        ;;
    speed)
        for code in 0 first; do # interpreted, and with code of their own
            part "copies, element-wise ops and products, NNTILE_GPU_CODE=$code" 80 \
                env NNTILE_GPU_CODE=$code $PYTHON "$root/tests/gpu/speed.py"
        done
        ;;
    models)
        for model in ${MODELS:-gpt2 mnist5 resnet18}; do
            part "steps of $model" 60 env NNTILE_GPU_CODE=first \
                $PYTHON "$root/tests/bench/models.py" "$model" --rounds 5 \
                --settings cuda,eager-g1,eager-off-g1,captured-g1,captured-off-g1,cpu
        done
        ;;
    esac
done
echo "written: $report"
