"""Files that somebody might send to do harm. `build(folder, canary)` writes them; code that runs makes `canary`.

Each is listed with what may become of it: "refused" (a pickle), "damaged", or "read" where it is merely odd.
"""

import io
import json
import os
import pickle
import struct
import zipfile

import torch
from safetensors.torch import save
from torch import nn


class Payload:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def build(folder, canary):
    made = {}

    def keep(name, data, fate):
        (folder / name).write_bytes(data)
        made[name] = fate

    _pickles(keep, str(canary))
    _archives(keep)
    _safetensors(keep)
    keep("empty.pt", b"", "damaged")
    keep("text.pt", b"just some text\n", "damaged")
    keep("random.bin", bytes(range(7, 250)) * 40, "damaged")
    keep("tar.pt", b"model/\0" + bytes(505) + bytes(512), "damaged")
    return made


def _saved(value, **options):
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def _pickles(keep, canary):
    touch = Payload(os.system, f"touch {canary}")
    evaluate = Payload(eval, f"open({canary!r}, 'w').close()")
    for protocol in range(6):
        keep(f"raw_protocol_{protocol}.pkl", pickle.dumps(touch, protocol), "refused")
    keep("raw_named.safetensors", pickle.dumps(evaluate), "refused")
    keep("long_raw.pkl", pickle.dumps([list(range(40_000)), touch], 0), "refused")
    keep("reduce.pt", _saved({"w": torch.ones(3), "x": touch}), "refused")
    keep("evaluate.pt", _saved({"x": evaluate}), "refused")
    keep("legacy_reduce.pt", _saved({"x": touch}, _use_new_zipfile_serialization=False), "refused")
    keep("whole_module.pt", _saved(nn.Linear(2, 2)), "refused")
    keep("legacy_module.pt", _saved(nn.Linear(2, 2), _use_new_zipfile_serialization=False), "refused")


def _archives(keep):
    good = _saved({"w": torch.arange(64, dtype=torch.float32)})
    archive = zipfile.ZipFile(io.BytesIO(good))
    contents = {name: archive.read(name) for name in archive.namelist()}
    root = next(iter(contents)).split("/")[0]
    program = contents[f"{root}/data.pkl"]

    def rezipped(changes, method=zipfile.ZIP_STORED):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as out:
            for name, content in {**contents, **changes}.items():
                out.writestr(name, content)
        return stream.getvalue()

    def with_program(data):
        return rezipped({f"{root}/data.pkl": data})

    keep("truncated.pt", good[: len(good) // 2], "damaged")
    keep("bomb.pt", rezipped({f"{root}/data/0": bytes(100 << 20)}, zipfile.ZIP_DEFLATED), "damaged")
    keep(
        "storage_lie.pt",
        with_program(program.replace(b"K\x40t", b"J" + struct.pack("<i", 1 << 28) + b"t", 1)),
        "damaged",
    )
    keep("setitem_on_list.pt", with_program(b"\x80\x02]q\x00K\x00K\x01s."), "any")
    keep("setitem_on_int.pt", with_program(b"\x80\x02K\x05K\x00K\x01s."), "any")
    keep("underflow.pt", with_program(b"\x80\x02t.."), "any")
    keep("deep.pt", with_program(b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."), "any")
    memo = b"".join(b"]q%c(" % index + b"h%c" % (index - 1) * 10 + b"e" for index in range(1, 12))
    keep("memo_bomb.pt", with_program(b"\x80\x02]q\x00" + memo + b"."), "damaged")
    keep("many_entries.pt", rezipped({f"{root}/x{index}": b"" for index in range(50_000)}), "damaged")
    keep("slip.pt", rezipped({f"{root}/../../../../slipped": b"x"}), "read")
    keep("not_a_state.pt", _saved([1, 2, 3]), "damaged")
    keep("no_torch.zip", _zip_of({"readme.txt": b"hello"}), "damaged")


def _zip_of(contents):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as out:
        for name, content in contents.items():
            out.writestr(name, content)
    return stream.getvalue()


def _safetensors(keep):
    def made(header, data=b"", length=None):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    def entry(shape, begin, end):
        return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}

    keep("length_2e63.safetensors", made(b"{}", length=(1 << 63) - 1), "damaged")
    keep("length_200MB.safetensors", made(b"{}", length=200 << 20), "damaged")
    keep("not_json.safetensors", made(b"{\xff\xfe"), "damaged")
    keep("beyond.safetensors", made({"w": entry([1 << 20], 0, 4 << 20)}, bytes(16)), "damaged")
    keep("negative.safetensors", made({"w": entry([-1], 0, 4)}, bytes(4)), "damaged")
    keep("overlap.safetensors", made({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12)), "damaged")
    keep("hole.safetensors", made({"a": entry([1], 0, 4)}, bytes(64)), "damaged")
    keep("double.safetensors", made(b'{"a":{},"a":{}}', bytes(4)), "damaged")
    keep("deep.safetensors", made(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "damaged")
    keep("many.safetensors", made({f"t{index}": entry([0], 0, 0) for index in range(30_000)}), "damaged")
    keep("truncated.safetensors", save({"w": torch.arange(64.0)})[:-10], "damaged")
    keep("odd_name.safetensors", made({"../../etc/x": entry([1], 0, 4)}, bytes(4)), "read")
