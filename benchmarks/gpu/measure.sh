#!/bin/bash
# Measures training and search on a GPU. Run it in the repository's root after setup.sh, with what to measure.
#
#     bash benchmarks/gpu/measure.sh FOLDER PART...    # step, more, search, multi30k_start, multi30k, tests
#
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
    grep -aE "${SHOW:-.}" "$OUT/$log.log" | grep -avE '^ *$|rtn_gpu|cuda_executor|Unable to register' |
        tail -n "${TAIL:-4}" | cut -c1-400
}
step() { run "$1" "step-$2" python3 benchmarks/train_step.py --rounds=12 "${@:3}"; }
multi30k() { # seconds, name, hparams, more flags
    run "$1" "multi30k-$2" python3 -m t2t_lite.bin.trainer --problem=text2text --source_dir="$folder/tok" \
        --languages=en-de --metric=bleu_tok_lc --vocab_size=9712 --hparams_set=multi30k \
        --data_dir="$folder/data" --output_dir="$folder/run-$2" --hparams="seed=4,$3" "${@:4}"
}

for part in "$@"; do
    case $part in
    step)
        step 110 base-bf16-xla --hparams_set=base --precision=bfloat16 --rows=784 --micro_batches=8 --jit=on
        step 60 base-bf16-plain --hparams_set=base --precision=bfloat16 --rows=784 --micro_batches=8 --jit=off
        ;;
    multi30k_start)
        TAIL=16 SHOW='step|BLEU|devices|rror|warn' multi30k 100 plain jit=off,log_every=20,eval_every=62 --train_steps=${STEPS:-124}
        TAIL=16 SHOW='step|BLEU|devices|rror|warn' multi30k 120 xla jit=on,log_every=20,eval_every=62 --train_steps=${STEPS:-124}
        ;;
    more)
        step 60 base-tf32 --hparams_set=base --precision=float32 --rows=784 --micro_batches=8 "--jit=${JIT:-on}"
        step 60 base-bf16-1 --hparams_set=base --precision=bfloat16 --rows=784 --micro_batches=1 "--jit=${JIT:-on}"
        step 70 big-bf16 --hparams_set=big --precision=bfloat16 --rows=784 --micro_batches=8 "--jit=${JIT:-on}"
        ;;
    multi30k) TAIL=30 SHOW='step|BLEU|devices|rror|warn' multi30k "${LIMIT:-330}" whole "jit=${JIT:-on},log_every=500,eval_every=2000" ;;
    tests) # those of layers, models and the training step, which on CPUs make test runs
        TAIL=40 SHOW='^(FAILED|ERROR|E  )|passed|failed' run "${LIMIT:-120}" tests env TF_FORCE_GPU_ALLOW_GROWTH=true \
            python3 -m pytest -q -n 10 -p no:cacheprovider -o filterwarnings= -m "not long" --tb=short \
            tests/layers tests/models tests/ops tests/training/test_step.py
        ;;
    search)
        for load in D1 D2 D3; do
            TAIL=40 run 40 "search-$load" python3 benchmarks/ledger.py --workload=$load --precision=bfloat16
        done
        ;;
    esac
done
