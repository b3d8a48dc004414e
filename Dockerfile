# One image for every process: the command says which one a container is (api, engine or worker).
FROM python:3.11-slim

RUN useradd --create-home --uid 10001 runstate
WORKDIR /srv

COPY requirements.lock pyproject.toml README.md LICENSE /src/
COPY orchestrator /src/orchestrator
COPY workers /src/workers
COPY api /src/api
COPY cli /src/cli
COPY examples /src/examples
RUN pip install --no-cache-dir -c /src/requirements.lock /src

ENV PYTHONUNBUFFERED=1 RUNSTATE_HOST=0.0.0.0 RUNSTATE_LOG_JSON=true
USER runstate
EXPOSE 8010
ENTRYPOINT ["runstate"]
CMD ["--help"]
