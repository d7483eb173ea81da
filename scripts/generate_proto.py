"""Generates the descriptors of the gRPC messages from the `.proto` files.

    python scripts/generate_proto.py           write `_descriptors.py`
    python scripts/generate_proto.py --check   fail if it is out of date

It needs `grpcio-tools`, which the package itself does not: `_messages` says why the descriptors are
committed instead of the code that protoc would generate.
"""

import argparse
import sys
import tempfile
from base64 import b64encode
from pathlib import Path
from textwrap import wrap

from google.protobuf import descriptor_pb2  # type: ignore[import-untyped]
from grpc_tools import protoc  # type: ignore[import-untyped]

__all__ = ["FILES", "TARGET", "compiled", "generate", "main"]

FOLDER = Path(__file__).resolve().parent.parent / "src" / "coreason_client" / "a2a" / "_grpc"
FILES = ("rpc.proto", "a2a_v1.proto", "a2a_v03.proto")
TARGET = FOLDER / "_descriptors.py"

_HEAD = '''\
"""Generated from the `.proto` files by `make proto`; do not edit."""

# Serialised `FileDescriptorProto` messages in base64, by the name of the file.
FILES = {
'''


def compiled() -> list[descriptor_pb2.FileDescriptorProto]:
    """Return the descriptors of the files, in the order in which they can be loaded.

    Raises:
        ValueError: protoc reports an error; it prints the error itself.
    """
    well_known = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "set.bin"
        arguments = ["protoc", f"-I{FOLDER}", f"-I{well_known}", f"--descriptor_set_out={output}"]
        if protoc.main([*arguments, *FILES]):
            raise ValueError("protoc failed")
        found = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())
    return list(found.file)


def generate() -> str:
    """Return the text of the generated module."""
    lines = [_HEAD]
    for file in compiled():
        text = b64encode(file.SerializeToString(deterministic=True)).decode()
        lines.append(f'    "{file.name}": (\n')
        lines += [f'        "{line}"\n' for line in wrap(text, 88)]
        lines.append("    ),\n")
    return "".join([*lines, "}\n"])


def main(arguments: list[str]) -> int:
    """Write the module, or check it; return the exit code."""
    parser = argparse.ArgumentParser(description="Generate the descriptors of the gRPC messages.")
    parser.add_argument("--check", action="store_true", help="fail if the file is out of date")
    text = generate()
    if not parser.parse_args(arguments).check:
        TARGET.write_text(text)
        return 0
    if TARGET.exists() and TARGET.read_text() == text:
        return 0
    sys.stderr.write(f"{TARGET.name} is out of date: run `make proto`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
