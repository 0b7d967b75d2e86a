#!/bin/bash
# Measures training and search on a GPU. Run it in the repository's root after setup.sh, with what to measure.
#
#     bash benchmarks/gpu/measure.sh FOLDER PART...
#
# PART, with the seconds it took on an H200 or may take at most:
#     smoke 13, step 125, compile 2 x 110, big 300, search 3 x 40,
#     multi30k_start 50, multi30k 450, multi30k_xla 600, tests 120
# OUT is where logs go (default: FOLDER/out). Each command has a time limit: a GPU machine is lent for minutes.
folder=$1 && shift
export OUT=${OUT:-$folder/out} PYTHONUNBUFFERED=1 TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}
mkdir -p "$OUT"
source "$folder/env"
export PYTHONPATH=$PYTHONPATH:$PWD

run() { # seconds, name of the log, command
    local limit=$1 log=$2 start=$SECONDS
    shift 2
    timeout -k 5 "$limit" "$@" >"$OUT/$log.log" 2>&1 </dev/null
    echo "== $log: rc $?, $((SECONDS - start)) s"
    grep -aE "${SHOW:-.}" "$OUT/$log.log" | grep -av '^ *$' | tail -n "${TAIL:-4}" | cut -c1-400
}
step() { # seconds, name, flags: 25,088 + 25,088 tokens
    run "$1" "step-$2" python3 benchmarks/train_step.py --rows=784 --precision=bfloat16 "${@:3}"
}
multi30k() { # seconds, name, hparams, more flags
    TAIL=30 SHOW='step|BLEU|devices|xla|rror|warn' run "$1" "multi30k-$2" python3 -m t2t_lite.bin.trainer \
        --problem=text2text --source_dir="$folder/tok" --languages=en-de --metric=bleu_tok_lc --vocab_size=9712 \
        --hparams_set=multi30k --data_dir="$folder/data" --output_dir="$folder/run-$2" --hparams="seed=4,$3" "${@:4}"
}

for part in "$@"; do
    case $part in
    smoke) run 60 smoke python3 benchmarks/gpu/smoke.py ;;
    step)
        step 110 base-xla --hparams_set=base --jit=on
        step 60 base-plain --hparams_set=base --jit=off
        ;;
    compile) # what takes XLA so long: trying out ways to multiply, or the rest
        XLA_FLAGS="$XLA_FLAGS --xla_gpu_autotune_level=0" step 110 base-untuned --hparams_set=base --jit=on
        XLA_FLAGS="$XLA_FLAGS --xla_gpu_enable_triton_gemm=false" step 110 base-cublas --hparams_set=base --jit=on
        ;;
    big) step 300 big-xla --hparams_set=big --jit=on ;;
    search)
        for load in D1 D2 D3; do
            SHOW='^D|arith|weights|rror' run 40 "search-$load" python3 benchmarks/ledger.py --workload=$load \
                --precision=bfloat16
        done
        ;;
    multi30k_start) multi30k 100 start jit=off,log_every=20,eval_every=62 --train_steps=124 ;;
    multi30k) multi30k 450 whole jit=off,log_every=500,eval_every=2000 ;;
    multi30k_xla) multi30k 600 xla jit=on,log_every=500,eval_every=2000 ;;
    tests) # those of layers, models and the training step, which on CPUs make test runs
        TAIL=40 SHOW='^(FAILED|ERROR|E  )|passed|failed' run 120 tests env TF_FORCE_GPU_ALLOW_GROWTH=true \
            python3 -m pytest -q -n 10 -p no:cacheprovider -o filterwarnings= -m "not long" --tb=short \
            tests/layers tests/models tests/ops tests/training/test_step.py
        ;;
    *) echo "measure.sh: no part is called $part" && exit 2 ;;
    esac
done
