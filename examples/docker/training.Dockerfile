# Trains, evaluates, translates and exports, as an ordinary user. In the folder of the sources:
#
#   pip wheel --no-deps -w dist .
#   docker build -f examples/docker/training.Dockerfile -t t2t-lite .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/runs:/work/runs" t2t-lite \
#       t2t-lite-trainer --problem=toy_ende --hparams_set=tiny --output_dir=runs/toy
#
# For NVIDIA GPUs: --build-arg WITH='tensorflow[and-cuda]' at build, --gpus all at run. The tag of the base is fixed; to
# fix its bytes as well, add the digest (@sha256:...) that you have checked.
FROM python:3.13.14-slim AS installed
ARG WITH=""
COPY requirements_lock.txt dist/t2t_lite-*.whl /tmp/packages/
# The versions of the lock, without its hashes: pip takes none for a wheel of one's own.
RUN python3 -m venv /opt/t2t-lite \
    && grep -oE '^[a-z0-9.-]+==[^ ;]+' /tmp/packages/requirements_lock.txt > /tmp/packages/versions.txt \
    && /opt/t2t-lite/bin/pip install --no-cache-dir -c /tmp/packages/versions.txt /tmp/packages/t2t_lite-*.whl ${WITH:+"$WITH"}

FROM python:3.13.14-slim
COPY --from=installed /opt/t2t-lite /opt/t2t-lite
ENV PATH=/opt/t2t-lite/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1
WORKDIR /work
USER 1000:1000
CMD ["t2t-lite-trainer", "--help"]
