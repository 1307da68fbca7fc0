"""The weights of a GGUF file in other formats, so that engines can be compared on each of them.

    pip install -r requirements.txt
    python requantise.py MODEL.gguf DIRECTORY [FORMAT ...]     # BF16 F16 Q8_0 Q4_0 when none is named

Every matrix is dequantised and written anew; norms, metadata and tokenizer stay. Formats with fewer than eight bits
keep the embedding in Q8_0, as files of this size are published. The same input gives the same bytes. The `gguf`
package quantises Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, BF16 and F16; it reads K-quants but cannot make them.
"""

import argparse
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

FILE_TYPES = {
    "F16": gguf.LlamaFileType.MOSTLY_F16, "BF16": gguf.LlamaFileType.MOSTLY_BF16,
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0,
    "Q4_1": gguf.LlamaFileType.MOSTLY_Q4_1, "Q5_0": gguf.LlamaFileType.MOSTLY_Q5_0,
    "Q5_1": gguf.LlamaFileType.MOSTLY_Q5_1}


def copy_metadata(reader, writer, name):
    """Every key but those that the writer sets or that name the format."""
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type)
    writer.add_file_type(FILE_TYPES[name])


def format_of(tensor, wanted):
    if tensor.tensor_type == Type.F32:
        return Type.F32
    small = gguf.GGML_QUANT_SIZES[wanted][0] > 1 and wanted != Type.Q8_0
    return Type.Q8_0 if small and tensor.name == "token_embd.weight" else wanted


def write(reader, path, name):
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(path, architecture)
    copy_metadata(reader, writer, name)
    for tensor in reader.tensors:
        kind = format_of(tensor, Type[name])
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("formats", nargs="*", default=["BF16", "F16", "Q8_0", "Q4_0"])
    args = parser.parse_args()
    unknown = [name for name in args.formats if name not in FILE_TYPES]
    if unknown:
        sys.exit(f"requantise: the gguf package cannot make {', '.join(unknown)}: {', '.join(FILE_TYPES)} it can")
    args.directory.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(args.model)
    stem = args.model.stem.rsplit(".", 1)[0]
    for name in args.formats:
        path = args.directory / f"{stem}.{name}.gguf"
        write(reader, path, name)
        print(f"{path} {path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
