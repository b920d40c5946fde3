"""Boxes in text: KITTI, YOLO, and the CSV files of AutoML Vision with a copy of their bucket."""

from __future__ import annotations

from collections.abc import Sequence

from tests.pictures import with_boxes, write_files

# --- KITTI: 1242 x 375 pixels, six digits, LF --------------------------------------------------------

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


def make_kitti(folder: str) -> None:
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


def frame(size: tuple[int, int], lines: Sequence[str] = ()) -> bytes:
    """A PNG with a rectangle for each object of some label lines."""
    boxes = []
    for line in lines:
        kind, _, _, _, *sides = line.split()[:8]
        colour = tuple(sum(kind.encode()) * step % 256 for step in (37, 101, 59))
        boxes.append(([float(side) for side in sides], colour))
    return with_boxes(size, (90, 100, 110), boxes, "PNG")


# --- YOLO's tools ------------------------------------------------------------------------------------

YOLO_NAMES = ("person", "bicycle", "traffic light")

_YOLO_SIZE = (64, 48)

YOLO_LABELS = {
    "train/000000000009": ("0 0.5 0.5 0.25 0.5", "2 0.125 0.25 0.125 0.25"),
    "train/000000000025": ("1 0.75 0.75 0.5 0.5",),
    "train/000000000030": (),
    "train/000000000034": None,
    "val/000000000036": ("0 0.25 0.5 0.5 1",),
    "val/000000000042": ("2 0.5 0.25 0.25 0.25", "1 0.5 0.75 0.125 0.125"),
}
"""Path of an image below images/, without extension -> lines of its label file; None is no file."""

DATA_YAML = f"""# COCO6, six images
path: ../datasets/coco6 # dataset root dir
train: images/train # train images (relative to 'path') 4 images
val: images/val # val images (relative to 'path') 2 images
test: # test images (optional)

# Classes
names:
  0: {YOLO_NAMES[0]}
  1: {YOLO_NAMES[1]}
  2: {YOLO_NAMES[2]}

# Download script/URL (optional)
download: https://example.com/coco6.zip
"""


def make_yolo(folder: str) -> None:
    """Writes coco6/ with data.yaml, images/ and labels/, each with train/ and val/."""
    files: dict[str, bytes | str] = {"data.yaml": DATA_YAML}
    for name, lines in YOLO_LABELS.items():
        files[f"images/{name}.jpg"] = picture_of(lines or ())
        if lines is not None:
            files[f"labels/{name}.txt"] = "".join(f"{line}\n" for line in lines)
    write_files(f"{folder}/coco6", files)


def picture_of(lines: tuple[str, ...], size: tuple[int, int] = _YOLO_SIZE) -> bytes:
    """A JPEG with a rectangle for each line of boxes."""
    boxes = []
    for line in lines:
        number, x, y, width, height = map(float, line.split()[:5])
        left, top = (x - width / 2) * size[0], (y - height / 2) * size[1]
        right, bottom = (x + width / 2) * size[0] - 1, (y + height / 2) * size[1] - 1
        colour = tuple(int(number + 1) * step % 256 for step in (37, 101, 59))
        boxes.append(([left, top, right, bottom], colour))
    return with_boxes(size, (90, 100, 110), boxes)


# --- AutoML Vision -----------------------------------------------------------------------------------

BUCKET = "gs://my-project-vcm"
_STREET = (64, 48)
AUTOML_SETS = ("TRAIN", "TRAIN", "TRAIN", "VALIDATION", "TEST", "UNASSIGNED")
FLOWERS = ("daisy", "rose", "tulip")
Corners = tuple[float, float, float, float]


def boxes_of(number: int) -> Sequence[tuple[str, Corners]]:
    """(label, box in fractions) of the objects of a street; one in six has none."""
    left = number % 6 / 10
    car = ("car", (left, 0.25, left + 0.25, 0.5))
    sign = ("street sign", (0.75, 0.125, 0.875, 0.75))
    return [(), (car,), (car, sign), (sign,), (car,), (sign, car)][number % 6]


def make_automl(folder: str) -> None:
    """Writes my-project-vcm/, a copy of the bucket, and flowers.csv, several.csv and streets.csv."""
    flowers, several, streets = [], [], []
    pictures: dict[str, bytes | str] = {}
    for number in range(18):
        flower, split = FLOWERS[number % 3], AUTOML_SETS[number % 6]
        name = f"flowers/{flower}/img{number // 3:03d}.jpg"
        pictures[name] = _street(number % 3)
        flowers.append(f"{split},{BUCKET}/{name},{flower}")
        more = [*FLOWERS, *FLOWERS][number % 3 : number % 3 + number % 4]
        several.append(",".join((split, f"{BUCKET}/{name}", *more)))
        name = f"streets/{number:04d}.png"
        pictures[name] = _street(3, boxes_of(number))
        streets += _street_rows(f"{split},{BUCKET}/{name}", number)
    write_files(f"{folder}/my-project-vcm", pictures)
    for table, rows in {"flowers": flowers, "several": several, "streets": streets}.items():
        write_files(folder, {f"{table}.csv": "".join(f"{row}\r\n" for row in rows)})


def _street_rows(beginning: str, number: int) -> list[str]:
    """A row an object, boxes by two vertices or by four in turns; one row if there is none."""
    rows = []
    for label, (xmin, ymin, xmax, ymax) in boxes_of(number):
        two = f"{xmin},{ymin},,,{xmax},{ymax},,"
        four = f"{xmin},{ymin},{xmax},{ymin},{xmax},{ymax},{xmin},{ymax}"
        rows.append(f"{beginning},{label},{four if number % 2 else two}")
    return rows or [f"{beginning},,,,,,,,,"]


def _street(colour: int, boxes: Sequence[tuple[str, Corners]] = ()) -> bytes:
    width, height = _STREET
    background = [(240, 240, 200), (200, 30, 60), (230, 160, 40), (90, 90, 90)][colour]
    fills = {"car": (20, 60, 200), "street sign": (220, 220, 20)}
    drawn = [
        ((xmin * width, ymin * height, xmax * width, ymax * height), fills[label])
        for label, (xmin, ymin, xmax, ymax) in boxes
    ]
    return with_boxes(_STREET, background, drawn, "PNG" if boxes or colour == 3 else "JPEG")
