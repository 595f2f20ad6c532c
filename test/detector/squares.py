# SPDX-License-Identifier: Apache-2.0
"""A data set that is learnt in seconds, for tests that run the program."""
import os
import random
import struct
import zlib

SIDE = 96


def write_png(file, rows):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    lines = b"".join(b"\0" + bytes(row) for row in rows)
    with open(file, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", SIDE, SIDE, 8, 2, 0, 0, 0))
                  + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def write_squares(folder, count=12):
    """Red and blue squares on grey noise, in VOC's format."""
    source = random.Random(7)
    for part in ("Annotations", "JPEGImages", "ImageSets/Main"):
        os.makedirs(os.path.join(folder, part))
    for i in range(count):
        rows = [[source.randrange(90, 160) for _ in range(3 * SIDE)] for _ in range(SIDE)]
        size = source.randrange(20, 40)
        left, top = source.randrange(SIDE - size), source.randrange(SIDE - size)
        colour = [230, 40, 30] if i % 2 else [30, 40, 230]
        for y in range(top, top + size):
            rows[y][3 * left:3 * (left + size)] = colour * size
        write_png(os.path.join(folder, f"JPEGImages/{i}.png"), rows)
        with open(os.path.join(folder, f"Annotations/{i}.xml"), "w") as xml:
            xml.write(f"<annotation><object><name>{'red' if i % 2 else 'blue'}</name><bndbox>"
                      f"<xmin>{left}</xmin><ymin>{top}</ymin><xmax>{left + size}</xmax>"
                      f"<ymax>{top + size}</ymax></bndbox></object></annotation>")
    with open(os.path.join(folder, "ImageSets/Main/train.txt"), "w") as names:
        names.write("".join(f"{i}\n" for i in range(count)))
