#!/bin/bash
# Unpacks TensorFlow and its parts on the GPU machine, and gives the CUDA libraries there the names that it opens.
#
#     bash benchmarks/gpu/setup.sh FOLDER    # FOLDER holds piece00, piece01, ... of pack.sh
#
# Afterwards: source FOLDER/env
set -euo pipefail
folder=$1
cd "$folder"
mkdir -p site cuda lib
cat piece* | tar -xf -
xz -dc -T0 tf.tar.xz | tar -xf - -C site &
xz -dc -T0 site.tar.xz | tar -xf - -C site
xz -dc cuda.tar.xz | tar -xf - -C cuda
[ ! -e data.tar.xz ] || xz -dc data.tar.xz | tar -xf -
wait
packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
# TensorFlow opens libraries of CUDA 12 by these names. A machine with CUDA 13 has all but the runtime under others; what
# a Transformer calls of them did not change. Libraries that are only opened (cufft, cusolver) may be any version.
for pair in cublas:12 cublasLt:12 cudnn:9 cufft:11 curand:10 cusolver:11 cusparse:12 nccl:2 cupti:12 nvrtc:12 nvJitLink:12; do
    name=lib${pair%:*}.so wanted=lib${pair%:*}.so.${pair#*:}
    found=$(find -L "$packages/nvidia" /usr/local/cuda*/lib64 /usr/local/cuda*/extras/CUPTI/lib64 \
        \( -name "$wanted" -o -name "$name.[0-9]*" \) 2>/dev/null | grep -v stubs | sort | head -1 || true)
    if [ -n "$found" ]; then ln -sf "$found" "lib/$wanted"; else echo "no $wanted on this machine"; fi
done
ln -sf "$PWD/cuda/lib/libcudart.so.12" lib/libcudart.so.12
neighbours=$(readlink -f lib/*.so.* | xargs -n1 dirname | sort -u | paste -sd:)
cat > env <<E2
export PYTHONPATH=$PWD/site
export LD_LIBRARY_PATH=$PWD/lib:$neighbours\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
export XLA_FLAGS=--xla_gpu_cuda_data_dir=$PWD/cuda
export PATH=$PWD/cuda/bin:\$PATH
E2
ls -l lib | awk '{print $9, $10, $11}'
