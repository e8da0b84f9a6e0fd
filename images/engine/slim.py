"""Make a freshly synced engine environment small and self-contained.

PyPI's torch for Linux is the CUDA build. On a CPU it calls none of cuBLAS, cuDNN, NCCL and the
like, yet the dynamic linker refuses to load torch unless a library of each name is found. The lock
file leaves those 2.7 GB out; this script puts an empty shared object of each name beside torch's
own libraries and binds functions on first use, which for the missing ones never comes. It may be
run again on the same environment.

    python3 slim.py ENVIRONMENT
"""

import shutil
import struct
import sys
from pathlib import Path

# What torch 2.13.0 names and engine/pyproject.toml leaves out.
ABSENT_LIBRARIES = (
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libcufft.so.12",
    "libcufile.so.0",
    "libcurand.so.10",
    "libcusolver.so.12",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libnccl.so.2",
    "libnvrtc.so.13",
    "libnvshmem_host.so.3",
)

LIBNUMA = "libnuma.so.1"

# What only builds, GPUs or tests use: expert-parallel kernels, headers, profiler back ends.
UNUSED = (
    "nixl_ep*",
    "nvidia/cu13/include",
    "nvidia/cu13/lib/*.a",
    "nvidia/cu13/lib/libnvperf_*",
    "nvidia/cu13/lib/libpcsamplingutil.so",
    "torch/bin/protoc*",
    "torch/include",
    "torch/test",
)

PT_LOAD, PT_DYNAMIC, READ_WRITE = 1, 2, 6
DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT = 0, 1, 4, 5, 6, 10, 11
DT_SONAME = 14
ET_DYN, EM_X86_64 = 3, 62
HEADER_BYTES, SEGMENT_BYTES, SECTION_BYTES, SYMBOL_BYTES, PAGE_BYTES = 64, 56, 64, 24, 4096


def empty_library(soname: str, *, needs: str) -> bytes:
    """Return an x86-64 ELF shared object called `soname` that defines nothing and loads `needs`."""
    strings = b"\0" + soname.encode() + b"\0" + needs.encode() + b"\0"
    hash_table = struct.pack("<4I", 1, 1, 0, 0)
    hash_at = HEADER_BYTES + 2 * SEGMENT_BYTES
    symbols_at = hash_at + len(hash_table)
    strings_at = symbols_at + SYMBOL_BYTES
    dynamic_at = -(-(strings_at + len(strings)) // 8) * 8
    entries = (
        (DT_SONAME, 1),
        (DT_NEEDED, len(soname) + 2),
        (DT_HASH, hash_at),
        (DT_STRTAB, strings_at),
        (DT_SYMTAB, symbols_at),
        (DT_STRSZ, len(strings)),
        (DT_SYMENT, SYMBOL_BYTES),
        (DT_NULL, 0),
    )
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header += struct.pack("<HHI", ET_DYN, EM_X86_64, 1)
    header += struct.pack("<QQQI", 0, HEADER_BYTES, 0, 0)
    header += struct.pack("<6H", HEADER_BYTES, SEGMENT_BYTES, 2, SECTION_BYTES, 0, 0)
    segments = _segment(PT_LOAD, 0, dynamic_at + len(dynamic), PAGE_BYTES)
    segments += _segment(PT_DYNAMIC, dynamic_at, len(dynamic), 8)
    body = header + segments + hash_table + bytes(SYMBOL_BYTES) + strings
    return body.ljust(dynamic_at, b"\0") + dynamic


def _segment(kind: int, at: int, length: int, align: int) -> bytes:
    return struct.pack("<II6Q", kind, READ_WRITE, at, at, at, length, length, align)


def _replace(path: Path, content: bytes) -> None:
    # Never written in place: the installer may have hard-linked the file to its cache.
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def main(environment: Path) -> None:
    """Slim the one site-packages folder of `environment`."""
    found = list(environment.glob("lib/python3*/site-packages/torch/lib"))
    if len(found) != 1:
        sys.exit(f"{environment} has no torch: run `uv sync` with engine/uv.lock into it first")
    torch_libraries = found[0]
    site_packages = torch_libraries.parents[1]

    for pattern in UNUSED:
        for path in site_packages.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    # vLLM's kernels need libnuma, which slim base images lack and the NIXL wheel brings under
    # another name. Loaded with torch from torch's folder, it has the right one when they ask.
    bundled = next(site_packages.glob("nixl_cu13.libs/libnuma-*"))
    _replace(torch_libraries / LIBNUMA, bundled.read_bytes())
    for soname in ABSENT_LIBRARIES:
        _replace(torch_libraries / soname, empty_library(soname, needs=LIBNUMA))
    # Python loads extension modules with every function bound at once: that needs them all.
    _replace(
        site_packages / "tandem_lazy_binding.pth",
        b"import os, sys; sys.setdlopenflags(os.RTLD_LAZY)\n",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
