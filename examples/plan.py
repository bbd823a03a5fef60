#!/usr/bin/env python3
"""Plans training steps from lengths with libdcpsim, no file between.

python3 plan.py            (where the library is not on the loader's path: LD_LIBRARY_PATH=PREFIX/lib python3 plan.py)
"""
import ctypes
import json
import sys

API = 1  # of the dcpsim.h that this was written for


def load():
    library = ctypes.CDLL(f"libdcpsim.so.{API}")
    library.dcpsim_plan_tokens.restype = ctypes.c_void_p
    library.dcpsim_plan_tokens.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_size_t,
                                           ctypes.c_char_p, ctypes.c_size_t]
    # struct dcpsim_header and struct dcpsim_step begin with their JSON line: the rest is not needed here.
    library.dcpsim_schedule_header.restype = ctypes.POINTER(ctypes.c_char_p)
    library.dcpsim_schedule_header.argtypes = [ctypes.c_void_p]
    library.dcpsim_schedule_next.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.POINTER(ctypes.c_char_p)),
                                             ctypes.c_char_p, ctypes.c_size_t]
    library.dcpsim_schedule_close.argtypes = [ctypes.c_void_p]
    return library


def plan(experiment, lengths):
    """The lines of the schedule, as objects: first the header, then a step each."""
    library = load()
    error = ctypes.create_string_buffer(1024)
    tokens = (ctypes.c_uint32 * len(lengths))(*lengths)
    handle = library.dcpsim_plan_tokens(json.dumps(experiment).encode(), tokens, len(lengths), error, len(error))
    if not handle:
        raise ValueError(error.value.decode())
    try:
        yield json.loads(library.dcpsim_schedule_header(handle)[0])
        step = ctypes.POINTER(ctypes.c_char_p)()
        while (status := library.dcpsim_schedule_next(handle, ctypes.byref(step), error, len(error))) == 0:
            yield json.loads(step[0])
        if status < 0:
            raise ValueError(error.value.decode())
    finally:
        library.dcpsim_schedule_close(handle)


def main():
    lengths = [512, 1024, 700, 30000, 2048, 900, 8192, 640] * 32  # what a data loader knows of its samples
    steps = plan({"schema": "dcpsim.experiment/1", "model": "llama2-7b", "cluster": "h200_8x1", "policy": "dcp"}, lengths)
    header = next(steps)
    print(header["policy"], "on", header["world"], "ranks,", header["samples_total"], "samples")
    for step in steps:
        for group in step["groups"]:
            samples = sum(len(mb["samples"]) for mb in group["micro_batches"])
            print(f"step {step['iteration']}: ranks {group['ranks'][0]} to {group['ranks'][1] - 1} run "
                  f"{len(group['micro_batches'])} micro-batches of {samples} samples")


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"plan: {error}")
