#!/bin/bash
# Packs TensorFlow and what t2t-lite needs besides into pieces that are small enough to be carried to a GPU machine
# without a network, whose python3 is 3.12.
#
#     bash benchmarks/gpu/pack.sh FOLDER [FILE.tar.xz]    # FILE: data that travels with it; setup.sh unpacks it
#
# PYTHON: a Python 3.12. PIECE: the size of a piece in bytes. HAVE: packages that the GPU machine has already.
set -euo pipefail
folder=$(mkdir -p "$1" && realpath "$1")
data=${2:-}
here=$(realpath "$(dirname "$0")")
PYTHON=${PYTHON:-python3.12} PIECE=${PIECE:-53500000}
HAVE=${HAVE:-click grpcio h5py joblib lxml markdown packaging pygments regex requests rich setuptools werkzeug}
cd "$folder"
rm -rf tf site cuda wheels piece*
grep -oE '^[A-Za-z0-9_.-]+==[^ ;]+' "$here/../../requirements_lock.txt" >pins.txt

"$PYTHON" -m pip download -q --no-deps -c pins.txt -d wheels tensorflow nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12
unzip -q wheels/tensorflow-*.whl -d tf
rm -r tf/tensorflow/include
find tf -name '*.so*' -type f -exec strip -s {} \;
for library in cc framework; do "$PYTHON" "$here/fatbins.py" "tf/tensorflow/libtensorflow_$library.so.2"; done

"$PYTHON" -m pip install -q --no-compile --no-deps --target site -c pins.txt keras absl-py astunparse flatbuffers gast \
    google_pasta opt_einsum protobuf six termcolor typing_extensions wrapt numpy ml_dtypes namex optree sentencepiece \
    sacrebleu sacremoses portalocker tabulate colorama tqdm tensorboard click grpcio h5py joblib lxml markdown packaging \
    pygments regex requests rich setuptools werkzeug markdown-it-py mdurl markupsafe pillow charset-normalizer idna \
    urllib3 certifi
rm -f site/tensorboard/webfiles.zip
for name in $HAVE; do # what the machine has, with its files as the package itself lists them
    record=$(ls -d site/"${name//-/_}"-*.dist-info 2>/dev/null | head -1)
    [ -n "$record" ] && cut -d, -f1 "$record/RECORD" | sed 's#^#site/#' | xargs rm -f
done
mkdir -p cuda/lib cuda/bin
unzip -q wheels/nvidia_cuda_nvcc*.whl -d cuda/nvcc && unzip -q wheels/nvidia_cuda_runtime*.whl -d cuda/runtime
cp cuda/runtime/nvidia/cuda_runtime/lib/libcudart.so.12 cuda/lib/
install -m 755 cuda/nvcc/nvidia/cuda_nvcc/bin/ptxas cuda/bin/
mkdir -p cuda/nvvm && cp -r cuda/nvcc/nvidia/cuda_nvcc/nvvm/libdevice cuda/nvvm/
rm -r cuda/nvcc cuda/runtime

for part in tf site cuda; do
    tar -C $part --sort=name -cf - . | xz -T0 --block-size=64MiB --x86 --lzma2=preset=6 >$part.tar.xz
done
[ -z "$data" ] || cp "$data" data.tar.xz
tar -cf - {tf,site,cuda}.tar.xz ${data:+data.tar.xz} | split -b "$PIECE" -d -a 2 - piece
rm -r tf site cuda wheels {tf,site,cuda}.tar.xz
ls -l piece*
