#!/usr/bin/env python3
"""Writes seeds for fuzz_etl_import into the given folder: those of fuzz_etl behind a byte of options."""
import pathlib
import subprocess
import sys
import tempfile

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory() as plain:
    subprocess.run([pathlib.Path(__file__).parent / "seeds_etl.py", plain], check=True)
    for seed in pathlib.Path(plain).iterdir():
        (folder / seed.name).write_bytes(b"\x11" + seed.read_bytes())
        (folder / (seed.name + "-filter")).write_bytes(b"\x45" + seed.read_bytes())
