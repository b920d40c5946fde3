"""A small data set as KITTI's object detection set unpacks: 1242 x 375 pixels, six digits, LF."""

from __future__ import annotations

import io

from PIL import Image, ImageDraw

from tests.pictures import write_files

CAR = "Car 0.00 0 1.62 10.00 20.00 30.00 40.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33"
DONT_CARE = "DontCare -1 -1 -10 {} -1 -1 -1 -1000 -1000 -1000 -10"

FRAMES = {
    "000000": (
        (1224, 370),
        "Car 0.00 0 1.62 312.50 170.25 468.75 262.00 1.52 1.63 3.88 -4.36 1.71 14.20 1.33",
        DONT_CARE.format("700.00 160.00 760.00 181.50"),
    ),
    "000001": (
        (1242, 375),
        "Pedestrian 0.00 0 -0.31 640.00 150.00 702.25 300.75 1.82 0.61 0.94 0.75 1.52 8.63 -0.22",
        "Car 0.88 2 -0.64 1088.11 189.34 1241.00 374.00 1.47 1.60 3.66 5.52 1.63 4.95 0.20",
        "Cyclist 0.00 1 -1.65 100.00 180.50 148.75 260.25 1.74 0.57 1.79 -9.16 1.80 13.05 -2.26",
    ),
    "000002": (
        (1242, 375),
        DONT_CARE.format("0.00 175.00 55.50 201.25"),
        DONT_CARE.format("420.10 169.90 440.20 184.30"),
    ),
    "000003": (
        (1242, 375),
        "Van 0.00 1 -1.57 500.00 140.00 598.50 233.00 2.20 1.88 5.10 -2.11 1.70 17.31 -1.69",
        "Truck 0.00 0 -1.58 610.50 120.25 655.00 190.75 3.25 2.60 9.80 0.52 1.49 41.20 -1.57",
    ),
    "000004": (
        (1242, 375),
        "Tram 0.00 0 1.91 300.00 100.00 410.00 210.00 3.53 2.46 16.00 -8.70 1.84 31.40 1.64",
        "Person_sitting 0.00 3 2.01 820.00 200.00 861.40 275.10 1.21 0.50 0.83 4.40 1.66 11.90 2.36",
    ),
    "000005": (
        (1238, 374),
        "Misc 0.34 0 -1.20 0.00 200.00 210.00 373.00 1.90 1.51 3.00 -5.10 1.80 5.30 -1.96",
        "Car 0.00 0 -1.49 700.25 178.50 755.75 215.00 1.50 1.62 4.04 3.40 1.72 26.05 -1.36",
    ),
}
"""Frame -> ((width, height), lines of its label file ...)."""

_CALIBRATION = "".join(
    f"{name}: {' '.join(['0.000000000000e+00'] * numbers)}\n"
    for name, numbers in (
        *((f"P{camera}", 12) for camera in range(4)),
        *(("R0_rect", 9), ("Tr_velo_to_cam", 12), ("Tr_imu_to_velo", 12)),
    )
)


def make(folder: str) -> None:
    """Writes kitti/training with images, labels and calibration, and kitti/testing with images."""
    for name, (size, *lines) in FRAMES.items():
        write_files(
            f"{folder}/kitti/training",
            {
                f"image_2/{name}.png": frame(size, lines),
                f"label_2/{name}.txt": "".join(f"{line}\n" for line in lines),
                f"calib/{name}.txt": f"{_CALIBRATION}\n",
            },
        )
    write_files(f"{folder}/kitti/testing", {"image_2/000000.png": frame((1242, 375))})


def frame(size: tuple[int, int], lines: list[str] | tuple[str, ...] = ()) -> bytes:
    """A PNG with a rectangle for each object of some label lines."""
    image = Image.new("RGB", size, (90, 100, 110))
    draw = ImageDraw.Draw(image)
    for line in lines:
        kind, _, _, _, *sides = line.split()[:8]
        colour = tuple(sum(kind.encode()) * step % 256 for step in (37, 101, 59))
        draw.rectangle([float(side) for side in sides], colour)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
