# Stock TensorFlow Serving with an export inside, as an ordinary user. The context is the export's folder:
#
#   t2t-lite-exporter --output_dir=runs/toy
#   docker build -f examples/docker/serving.Dockerfile -t ende runs/toy/export
#   docker run --rm --read-only --cap-drop=ALL -p 127.0.0.1:8501:8501 ende
#   t2t-lite-query --server=localhost:8501 --model=model
#
# The server asks nobody who they are: never without 127.0.0.1, or behind the gate of examples/serving.
FROM tensorflow/serving:2.20.0
COPY --chmod=755 . /models/model
USER 65534:65534
EXPOSE 8501
# The image has bash and grep, but neither curl nor wget.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8501 && \
    printf 'GET /v1/models/model HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && \
    grep -q '\"AVAILABLE\"' <&3"]
