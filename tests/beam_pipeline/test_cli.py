"""The command line: options, what is wrong with them, and exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from beam_pipeline import cli, launch
from beam_pipeline.commands import COMMANDS
from beam_pipeline.core.errors import UsageError
from tests.harness import (
    convert,
    convert_in_process_of_its_own,
    dead_letters_of,
    python,
    run,
    run_convert,
    run_shell,
    shard_names,
)
from tests.pictures import write_files, write_pictures


@pytest.fixture(autouse=True)
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The working folder has ten images in two class folders, photos/a and photos/b."""
    monkeypatch.chdir(tmp_path)
    write_pictures("photos", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(10)])
    write_files(
        "tables", {"boxes.csv": "filename,class,xmin,ymin,xmax,ymax\na/0.jpg,cat,1,1,3,3\n"}
    )
    return f"{tmp_path}/photos"


PHOTOS = ("--images", "photos", "--output", "out")
CROP = "--labels tables/boxes.csv --crop_boxes"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--images nowhere", "--images nowhere: no such file or folder"),
        ("--images nowhere/*.jpg", "no folder"),
        ("--images photos/a", "could be listed twice"),
        ("--labels nowhere.csv", "--labels nowhere.csv: no such file"),
        ("--num_shard 4", "unknown option --num_shard: neither beam-tfrecord nor Apache Beam"),
        ("--num_shard 4", " knows it; did you mean --num_shards?"),
        ("--runer=DirectRunner", "did you mean --runner?"),
        ("--seed=1 stray", "unknown argument stray"),
        ("--splits train=0.9", "the shares add up to 0.9, not to 1"),
        ("--splits train=0.5,train=0.5", "names train twice"),
        ("--splits a/b=1", "'a/b' cannot name a split"),
        ("--num_shards 0", "'0' is not a number of shards"),
        ("--shard_size big", "'big' is not a size"),
        ("--name a/b", "--name 'a/b' cannot start a file name"),
        ("--name=.hidden", "--name '.hidden' cannot start a file name"),
        ("--label_base 2", "--label_base is 2"),
        ("--seed x", "invalid int value: 'x'"),
        ("--image_check some", "--image_check is 'some', expected one of"),
        ("--shuffle none", "--shuffle is 'none', expected one of"),
        ("--compression zip", "--compression is 'zip', expected none or gzip"),
        ("--max_bad_fraction 1.5", "--max_bad_fraction is 1.5, expected 0 to 1"),
        ("--max_bad_fraction nan", "--max_bad_fraction is nan"),
        ("--min_side 0", "--min_side is 0, expected 1 or more"),
        ("--max_aspect 0.5", "--max_aspect is 0.5, expected 1 to 1000000000.0"),
        ("--max_aspect inf", "--max_aspect is inf"),
        ("--max_image_bytes lots", "'lots' is not a size"),
        ("--columns a", "expected NAME:TYPE"),
        ("--columns a:double", "'double' (of column a) is not a type"),
        ("--columns=a:str --file_columns=a", "column 'a' is str in --columns and file in --file_c"),
        ("--label_column x", "--label_column means nothing for the layout class_folders (no --lab"),
        ("--label_column x", " and no other layout's files); it is for "),
        ("--unlabelled empty", "--unlabelled empty means nothing for the layout class_folders"),
        ("--writers -1", "--writers is -1, expected 0 to 1000"),
        ("--read_ahead 0", "--read_ahead is 0, expected 1 to 1000"),
        ("--read_ahead 1001", "--read_ahead is 1001, expected 1 to 1000"),
        ("--read_ahead many", "invalid int value: 'many'"),
        ("--read_ahead_size 0", "'0' is less than one byte"),
        ("--read_ahead_size some", "'some' is not a size"),
        ("--direct_num_workers=many", "direct_num_workers"),
        ("--runner=DataflowRunner --project=p", "its workers cannot see"),
        ("--resume --overwrite", "--resume keeps what --overwrite removes; give only one"),
        ("--resume --shuffle=records", "--resume needs the receipt of each shard"),
        ("--resume --shuffle=records", "convert without --resume, or without --shuffle"),
        ("--split_by patient", "--split_by needs --splits with the split sizes"),
        ("--stratify", "--stratify needs --splits with the split sizes"),
        ("--classes_only", "--classes_only needs --classes"),
        ("--classes=c --class_ids=keep", "--class_ids has no effect with --classes"),
        ("--classes=c --label_order=numeric", "--label_order has no effect with --classes"),
        ("--class_ids=keep --label_base=1", "--label_base means nothing with --class_ids keep"),
        ("--row_id id", "--row_id needs --sample row"),
        ("--group_by image", "--group_by needs --sample row"),
        ("--crop_margin 0.5", "--crop_margin needs --crop_boxes"),
        ("--crop_boxes", "--crop_boxes needs boxes, and the labels of the layout class_fold"),
        ("--crop_boxes --sample row", "leave out one"),
        (f"{CROP} --unlabelled keep", "leave out --unlabelled keep"),
        (f"{CROP} --unlabelled empty", "leave out --unlabelled empty"),
        (f"{CROP} --bad_boxes drop_image", "leave out --bad_boxes drop_image"),
    ],
)
def test_wrong_usage_says_what_and_writes_nothing(
    options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, a message that shows what was found, and no output folder."""
    try:
        code = convert(*PHOTOS, *shlex.split(options))
    except SystemExit as exit_by_beam:  # Beam's own parser refuses values of its own options
        code = exit_by_beam.code  # type: ignore[assignment]
    assert code == 2
    assert message in capsys.readouterr().err
    assert not os.path.exists("out")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "the file is empty"),
        ("a.jpg,cat,3\n", "where column names are expected"),
        ("filename,label,label\n", "names 'label' more than once"),
        ("photo\na.jpg\n", "no column besides the key"),
        ("filename,x,y\na.jpg,1,2\n", "which of the columns x, y is the label?"),
    ],
)
def test_a_label_file_that_cannot_be_used_is_found_before_anything_is_written(
    table: str, message: str
) -> None:
    """Exit code 2, the file's name, and no output folder."""
    write_files(".", {"l.csv": table})
    error = run_convert(*PHOTOS, "--labels", "l.csv", code=2).err
    assert message in error
    assert os.path.abspath("l.csv") in error
    assert not os.path.exists("out")


def test_a_manifest_that_lists_files_elsewhere_is_not_believed() -> None:
    """--overwrite never removes anything outside the output folder."""
    assert convert(*PHOTOS) == 0
    write_files(".", {"precious": "x"})
    manifest = Path("out/manifest.json")
    (shard,) = shard_names("out")
    manifest.write_text(manifest.read_text().replace(shard, "../precious"))
    assert "not a file of its own folder" in run("verify", "out", code=1).err
    assert convert(*PHOTOS, "--overwrite") == 2
    assert Path("precious").read_text() == "x"
    assert Path(f"out/{shard}").exists()


@pytest.mark.slow
def test_too_many_bad_samples_fail_the_job_and_keep_the_dead_letters() -> None:
    """Exit code 1, a summary by reason, no manifest; the dead letters say which."""
    write_files("photos", {"a/bad.jpg": "x", "b/empty.jpg": ""})
    error = run_convert(*PHOTOS, code=1).err
    assert "2 bad samples among 12 listed images, 0.01 of them allowed" in error
    assert "1 empty_file (such as 'b/empty.jpg'; of the first: the file is empty), " in error
    assert (
        "1 not_an_image (such as 'a/bad.jpg'; of the first: 1 bytes that start with b'x': " in error
    )
    assert "Traceback" not in error
    assert "manifest.json" not in os.listdir("out")
    assert [letter["key"] for letter in dead_letters_of("out")] == ["a/bad.jpg", "b/empty.jpg"]
    assert convert(*PHOTOS, "--overwrite", "--max_bad_fraction", "0.2") == 0


def test_nothing_joined_shows_names_of_both_sides() -> None:
    """Exit code 1, before any shard is written, with what images and rows are called."""
    write_files(".", {"l.csv": "filename,label\nx_1,cat\n"})
    error = run_convert(*PHOTOS, "--labels", "l.csv", code=1).err
    assert "none of 10 images met one of 1 label rows" in error
    assert "'a/0.jpg'" in error
    assert "'x_1'" in error
    assert shard_names("out") == []


def test_no_images_at_all() -> None:
    """An empty folder, or one of other files, is an error that says what was passed over."""
    write_files("in", {"notes.txt": "x", ".hidden.jpg": "x"})
    error = run_convert("--images", "in", "--output", "out", code=1).err
    assert "no images found (passed over: 1 .txt, 1 hidden files)" in error


def test_the_summary_says_what_a_person_wants_to_know(tmp_path: Path) -> None:
    """Splits, shards, classes, dead letters with the first few, the manifest, and code that runs."""
    write_files("photos", {"a/bad.jpg": "x"})
    out = run_convert(*PHOTOS, "--max_bad_fraction", "0.1").out
    assert "  train: 10 examples in 1 shard, " in out
    assert "  2 classes: 0 a (5), 1 b (5)\n" in out
    assert "    not_an_image: 1\n      a/bad.jpg: 1 bytes that start with b'x'" in out
    assert (
        f"  manifest: {tmp_path}/out/manifest.json\n  report: {tmp_path}/out/report.html\n" in out
    )
    code = "\n".join(line[2:] for line in out.partition("Read it:\n\n")[2].splitlines())
    namespace: dict[str, object] = {}
    exec(code, namespace)
    ((images, labels),) = namespace["dataset"]  # type: ignore[misc]
    assert images.shape == (10, 7, 9, 3)
    assert sorted(labels.numpy()) == [0] * 5 + [1] * 5


@pytest.mark.slow
def test_a_job_in_a_terminal_less_process_prints_plain_lines() -> None:
    """No control characters, no tracebacks, no warnings of Beam's."""
    done = convert_in_process_of_its_own(*PHOTOS)
    assert done.returncode == 0
    assert done.stderr == "10 images listed\n10 samples, 6.3 kB to write\n"
    *understood, wrote = done.stdout.splitlines()[:4]
    assert understood == [
        "Layout class_folders: no --labels and no other layout's files",
        "  path segment 1  class   2 folders, such as 'a'",
        "  .jpg files      images  10 files, such as '0.jpg'",
    ]
    assert wrote.startswith("Wrote 10 examples, ")


LONGEST = "n" * 184


@pytest.mark.parametrize(
    ("options", "shard"),
    [
        ("--num-shards=2 --name=a-b", "a-b-train.tfrecord-00000-of-00002"),
        ("--output 'my set/'", "my_set-train.tfrecord-00000-of-00001"),
        (f"--name {LONGEST}", f"{LONGEST}-train.tfrecord-00000-of-00001"),
    ],
    ids=["dashes for underscores", "of the output folder", "the longest that is not refused"],
)
def test_names_of_shards(options: str, shard: str) -> None:
    """Values keep their dashes; what a file name should not hold becomes an underscore."""
    assert convert(*PHOTOS, *shlex.split(options)) == 0
    (manifest,) = Path.cwd().glob("*/manifest.json")
    assert shard_names(manifest.parent)[0] == shard


@pytest.mark.slow
def test_verify_and_help_import_no_beam() -> None:
    """Commands that run no job, help, and wrong options do without Beam, and without the completion of shells."""
    assert convert(*PHOTOS) == 0
    calls = [
        *((argv.split(), 0) for argv in ("verify out", "--help", "convert --help", "plan --help")),
        (["convert", *PHOTOS, "--seed=a"], 2),
        (["plan", *PHOTOS, "--workers=0"], 2),
        (["convert", "--images", "nowhere", "--output", "x"], 2),
    ]
    code = (
        "import sys; from beam_pipeline.cli import main\n"
        f"for argv, expected in {calls!r}:\n"
        "    try: code = main(argv)\n"
        "    except SystemExit as end: code = end.code\n"
        "    assert code == expected, argv\n"
        "    assert not {'apache_beam', 'argcomplete'} & sys.modules.keys(), argv"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def help_of(*command: str) -> str:
    """The help as a person with a terminal of 80 columns sees it."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit, match="0"):
            cli.main([*command[:1], "--help", *command[1:]])
    return text.getvalue()


@pytest.mark.parametrize("command", [(), *((name, "all") for name in COMMANDS)])
def test_help_fits_80_columns(command: tuple[str, ...]) -> None:
    """No line is longer, none is cut, and every command says what it does."""
    lines = help_of(*command).splitlines()
    assert lines[0].startswith(" ".join(["usage: beam-tfrecord", *command[:1]]))
    assert [line for line in lines if len(line) > 80 or line != line.rstrip()] == []
    assert len(" ".join(lines[2 : lines.index("", 2)])) > 30  # the description


@pytest.mark.parametrize(
    ("command", "rest"), [("convert", ["examples"]), ("plan", ["estimate", "examples"])]
)
def test_help_shows_the_groups_in_order(command: str, rest: list[str]) -> None:
    """Headings, in the order in which a person thinks of them."""
    headings = re.findall(r"^(\w.*):$", help_of(command, "all"), re.MULTILINE)
    groups = ["options", "inputs", "labels", "samples", "splits and shards", "images", "output"]
    groups += ["engine"]
    assert headings[: len(groups) + len(rest)] == [*groups, *rest]


@pytest.mark.slow
def test_the_examples_of_the_help_run() -> None:
    """Each example for this machine ends well; that for Dataflow is read without a complaint."""
    rows = "".join(f"{i}.jpg,{'ab'[i % 2]}\n" for i in range(10))
    write_files(".", {"labels.csv": f"filename,label\n{rows}"})
    ran = 0
    for command in ("convert", "plan"):
        examples = help_of(command).partition("\nexamples:\n")[2].replace("\\\n", "")
        for line in re.findall(r"^  (beam-tfrecord .*)$", examples, re.MULTILINE):
            if "Dataflow" in line:
                _, unknown = cli._parser().parse_known_args(shlex.split(line)[1:])
                assert launch.beam_parser().parse_known_args(unknown)[1] == []
            else:
                run_shell(line, ".")
                ran += 1
    assert ran == 5
    assert sorted(os.listdir()) == ["labels.csv", "photos", "split", "tables", "tfrecords"]


@pytest.mark.parametrize(
    ("argv", "whole"),
    [
        (["convert", "."], "convert --images . --output tfrecords/"),
        (["."], "convert --images . --output tfrecords/"),
        (
            ["plan", "a", "b c", "--output=x", "--seed=1"],
            "plan --images a 'b c' --output=x --seed=1",
        ),
    ],
)
def test_paths_alone_are_answered_with_the_whole_command(argv: list[str], whole: str) -> None:
    """`convert photos/` is what most people type first."""
    error = run(*argv, code=2).err
    assert error == (f"beam-tfrecord: error: --images names the images: beam-tfrecord {whole}\n")


def test_no_command_gives_a_short_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, so that a script notices; commands to begin with."""
    with pytest.raises(SystemExit) as end:
        cli.main([])
    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("beam-tfrecord turns images")
    assert "  beam-tfrecord demo" in lines
    with pytest.raises(UsageError, match="required: COMMAND"):
        cli._parser().parse_args([])


def test_the_help_lists_each_command_once_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """By what a person wants to do; a command of no group comes last."""
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    listed = re.findall(r"^  (\w+)  +\w", text.partition("\noptions:")[0], re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)
    assert listed[:3] == ["convert", "plan", "demo"]
    headings = ["make a data set", "look at one", "other", "options", "examples"]
    assert re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)[:5] == headings
    assert "--num-shards is --num_shards" in text.replace("\n", " ")


def completions(line: str) -> list[str]:
    """What the shell is told at the end of a line."""
    code = (
        "import os, sys\nr, w = os.pipe()\nos.dup2(w, 8)\n"
        "from beam_pipeline.cli import main\n"
        "os._exit = lambda code: (os.close(8), os.close(w), print(os.read(r, 99999).decode()), "
        "sys.stdout.flush(), sys.exit(code))\nmain([])"
    )
    point = str(len(line.encode()))
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": point, "_ARGCOMPLETE_IFS": " "}
    done = python("-c", code, env={**os.environ, **asked})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_shells_complete_commands_options_and_values() -> None:
    """As `register-python-argcomplete` asks for them; a command's options without the others'."""
    assert completions("beam-tfrecord ins") == ["inspect"]
    assert set(COMMANDS) <= set(completions("beam-tfrecord "))
    assert completions("beam-tfrecord convert --num_s") == ["--num_shards"]
    assert completions("beam-tfrecord inspect out --wh") == ["--where"]
    assert completions("beam-tfrecord convert --compression g") == ["gzip"]


def test_options_before_the_command_are_refused() -> None:
    """The command is found behind them, and they are named."""
    assert "unknown option --verbose" in run("--verbose", "verify", "nowhere", code=2).err
