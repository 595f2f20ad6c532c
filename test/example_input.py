#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an example that reads something on small input whose result is known.

    example_input.py <example> <its program>
"""

import pathlib
import struct
import subprocess
import sys
import tempfile


def run(*command, text=""):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def write_npy(path, rows, columns, values, kind="<f4"):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{rows * columns}f", *values))


def check_postprocess(program):
    """One anchor is confident of one class: its own box is found, at logit 2 with a score of 0.881."""
    height, width, classes = 64, 96, 3
    anchors = sum(-(-height // s) * -(-width // s) * 9 for s in (8, 16, 32, 64, 128))
    logits, deltas = [-9.0] * (anchors * classes), [0.0] * (anchors * 4)
    # Level 0, location (4, 6), its first shape: size 32, ratio 0.5, so 45 x 23 about (48, 32).
    anchor = (4 * 12 + 6) * 9
    logits[anchor * classes + 2] = 2.0
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / name for name in ("logits.npy", "deltas.npy")]
        write_npy(files[0], anchors, classes, logits)
        write_npy(files[1], anchors, 4, deltas)
        done = run(program, *map(str, files), str(height), str(width))
        expected = "class 2  score 0.881  box 25.0 21.0 71.0 43.0\n"
        assert (done.returncode, done.stdout) == (0, expected), done
        done = run(program, *map(str, files), "640", "640")
        assert done.returncode == 1 and "postprocess" in done.stderr, done
        for sides, said in ((("high", "96"), 'the image height is "high", expected a whole number'),
                            (("64", "96x"), 'the image width is "96x", expected a whole number'),
                            (("64", "0"), 'the image width is "0", expected a whole number')):
            done = run(program, *map(str, files), *sides)
            assert done.returncode == 1 and said in done.stderr, done
        done = run(program, "none.npy", str(files[1]), str(height), str(width))
        assert done.returncode == 1 and "none.npy: cannot be opened" in done.stderr, done
        write_npy(files[0], anchors, classes, logits, "<f8")
        done = run(program, *map(str, files), str(height), str(width))
        assert done.returncode == 1 and "expected a .npy file of float32" in done.stderr, done


def check_nms(program):
    rows = ["0 0 10 10 0.9 1", "0 0 10 5 0.8 1", "1 0 11 10 0.7 1", "1 0 11 10 0.6 2"]
    kept = {"0.5": [0, 1, 3], "0.45": [0, 3], "1": [0, 1, 2, 3]}
    for threshold, indices in kept.items():  # the first two overlap by exactly 0.5, the first and third by 9/11
        done = run(program, threshold, text="\n".join(rows))
        assert done.stdout.splitlines() == [rows[i] for i in indices], (threshold, done)
    done = run(program, "0.5", "onnx", text="\n".join(rows))
    assert done.returncode == 0 and done.stdout.splitlines() == [rows[i] for i in (0, 1, 3)], done
    done = run(program, "1.5", text="\n".join(rows))
    assert done.returncode == 1 and "iou_threshold is 1.5" in done.stderr, done
    for text in ("half", "0.5x", ""):
        done = run(program, text)
        assert done.returncode == 1 and f'the IoU threshold is "{text}", expected a number' in done.stderr, done
    assert run(program, "0.5", "caffe").returncode == 1
    done = run(program, "0.5", text=rows[0] + "\nx")
    assert done.returncode == 1 and "expected another number" in done.stderr, done
    done = run(program, "0.5", text=rows[0] + "\n1")
    assert done.returncode == 1 and "7 numbers, expected rows of" in done.stderr, done


if __name__ == "__main__":
    {"postprocess_npy": check_postprocess, "nms_detections": check_nms}[sys.argv[1]](sys.argv[2])
