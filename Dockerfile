# The server's image. Its install step is the Makefile's, so that there is one way to install WorldPager.
FROM python:3.11-slim-bookworm

RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*

# what runs here may write to /worlds and /tmp only
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin worldpager

WORKDIR /app
COPY pyproject.toml constraints.txt Makefile README.md LICENSE ./
COPY shared shared
COPY models models
COPY server server
COPY client client
COPY bench bench
COPY deploy/health.py deploy/health.py

# where pip also looks for torch: the CPU build is a tenth of the size of the default one, which brings CUDA
ARG TORCH_INDEX=""
ARG EXTRAS=server
ENV PIP_EXTRA_INDEX_URL=${TORCH_INDEX} \
    PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/tmp/numba
RUN make install EXTRAS=${EXTRAS}

RUN install --directory --owner=worldpager /worlds
VOLUME /worlds
USER worldpager
EXPOSE 8765
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 CMD [".venv/bin/python", "deploy/health.py"]
ENTRYPOINT [".venv/bin/python", "-m", "server"]
CMD ["serve", "--host", "0.0.0.0", "--worlds", "/worlds"]
