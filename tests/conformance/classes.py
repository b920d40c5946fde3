"""Names of classes, with as many images each: what is asked of them, as folders and as values of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beam_pipeline.core.dataset.plausibility import LabelChecks, class_questions
from beam_pipeline.core.text import enumerated
from tests.conformance.trees import paths

_SHOWN = 12


@dataclass(frozen=True)
class Classes:
    """Classes with their numbers of images.

    Attributes:
      counts: class -> number of images.
      column: the label column.
    """

    counts: Mapping[str, int]
    column: str = "label"

    def outcome(self) -> dict[str, Any]:
        """The questions with their answers, of folders, of a column, and of folders that a list names."""
        column = LabelChecks(f"the column {self.column!r}", self.column)
        folders = LabelChecks("folder names", folder="root")
        listed = LabelChecks("folder names", folder="root", listed=True)
        asked = {
            "column": _asked(self.counts, column),
            "folders": _asked(self.counts, folders),
            "listed": _asked(self.counts, listed),
        }
        if asked["listed"] == asked["folders"]:
            del asked["listed"]
        shown = enumerated([f"{n} {name}" for name, n in self.counts.items()], _SHOWN)
        return {"classes": shown, **asked}


def _asked(classes: Mapping[str, int], checks: LabelChecks) -> dict[str, Any]:
    return {question.id: question.answer for question in class_questions(classes, checks)}


def of(*patterns: str, column: str = "label", images: int = 5) -> Classes:
    """Classes by patterns with braces."""
    return Classes(dict.fromkeys(paths(*patterns), images), column)


def values(*names: str, column: str = "label", images: int = 5) -> Classes:
    """Classes by their names."""
    return Classes(dict.fromkeys(names, images), column)


_IMAGENET = (
    "tench, Tinca tinca",
    "goldfish, Carassius auratus",
    "great white shark, white shark",
    "crane",
)

ROWS = {
    "none": Classes({}),
    "few_images": Classes({"cat": 4}),
    "few": Classes({"cat": 1, "dog": 1}),
    "long_tail": Classes({"cat": 100, "dog": 1}),
    "people": Classes({f"person {i}": 1 + (i % 3 == 0) for i in range(100)}),
    "nine_single": of("{0..8}", images=1),
    "ten_single": Classes({str(i): 1 + (i == 3) for i in range(10)}),
    "two_fractions": values("0,5", "1,5"),
    "two_fractions_of_six": values("0.5", "0.7", "a", "b", "c", "d"),
    "fractions": values("-0,5", ".25", "1e-3", "a", "b"),
    "integers": of("{0..99}"),
    "imagenet": values(*_IMAGENET),
    "marks": values("AC/DC", "a;", ",", "a"),
    "words": values("golden retriever", "labrador retriever", "golden eagle"),
    "words_with_one": values("hot dog", "dog", "apple pie"),
    "words_of_splits": values("bullet_train", "test_tube", "bus", "cup", "car"),
    "single": values("cat"),
    "semicolons": values("a;b", "b; c", "c;a"),
    "bars": values("a|b", "a", "b", "tench, Tinca tinca"),
    "commas": values("a,b", "a", "b"),
    "ages": of("{20..29}", column="age"),
    "angles": values(*map(str, range(-9, 9)), column="Yaw angle"),
    "few_ages": of("{20..28}", column="age"),
    "ages_and_words": values(*map(str, range(20)), "90+", column="age"),
    "age_groups": of("{0..19}", column="age group"),
    "stages": of("{0..19}", column="stage"),
    "camel_quantity": of("{0..19}", column="steeringAngle"),
    "lists_of_integers": values("16 0", "7 1 2 0", "5", column="Target"),
    "spaced_lists": values("scab", "rust", "scab rust", "healthy"),
    "tags": values("clear primary", "clear water primary", "haze primary water", column="tags"),
    "tags_as_label": values("clear primary", "clear water primary", "haze primary water"),
    "pairs": values("red car", "red bus", "blue car", "blue bus", column="labels"),
    "boxes": values("n01 5 6 40.5 30", "n02 1 2 3 4 n01 5 6 7 8", "none"),
    "images_among": of("images", "n01/images"),
    "images_among_classes": of("images", "cat", "dog"),
    "split_sets": of("{test,training}_set/{cat,dog}"),
    "split_sets_flat": of("{test,training}_set"),
    "split_sets_deep": values("My.TrainData/a/b", "My.TestData/a"),
    "split_words_in_two_frames": values("train_a/cat", "b_test/cat"),
    "split_words_of_two_depths": values("train_a/cat", "test_a"),
    "split_words_of_most": values("query", "boxes_train", "boxes_test"),
    "split_words_of_some": values("a_test/1", "a_train/1", "b_train/1", *"cdefg", "val_x"),
    "split_words_of_few": values("a_train/1", "b_test/1", "c", "d", "e"),
    "split_numbered": values("train_1/cat", "train_2/cat"),
    "splits_and_bus": values("train", "test", "bus"),
    "trainers": values("trainer", "tests"),
    "val_beside": of("n1", "n2", "val"),
    "train_beside": of("bus", "train"),
    "only_splits": of("test", "val"),
    "splits_in_paths": of("a b/{train,val}/cat"),
    "splits_deep": values("a/b/TRAIN/cat/small", "a/b/val/dog"),
    "splits_in_two": of("{a,b}/train/cat"),
    "splits_in_some": values("a/train/cat", "a/cat"),
    "splits_below": of("{cat,dog}/{test,train}"),
    "images_above": of("images/{cat,dog}"),
    "images_above_deep": values("dtd/Images/a/b", "dtd/Images/c"),
    "images_in_each": of("{a,b}/images/{cat,dog}"),
    "images_below": of("{cat,dog}/images"),
    "images_above_and_below": of("images/{cat,dog}/imgs"),
    "tracking": of("MOT17-{02,04}/img1"),
    "images_of_two_names": values("cat/images", "dog/imgs"),
    "masks_below": of("s1/{0a7e,0acd}/{images,masks}"),
    "masks_of_some": values("a/images", "a/masks", "b"),
    "masks_alone": of("{fabric,paper}/masks"),
    "masks_beside": of("images", "masks"),
    "repeated": of("{color,grey}/{apple,grape}"),
    "repeated_other": values("bird/owl", "bird/duck", "cat/other", "dog/other", "dog/pug"),
    "folds": of("fold{1..5}/{cat,dog,elk}"),
    "dates": values("2002/07/19/big", "2002/08/11/big"),
    "dates_above": values("2021-05-03/cat", "2021-05-04/dog"),
    "dates_above_numbers": of("2021/05/03/{0,1}"),
    "dates_alone": of("2021050{3..5}"),
    "dates_of_few": values("cat", "2021-05-03"),
    "dates_of_most": values("cat", "2021-05-04", "2021-05-03"),
    "dates_in_names": of("2011_09_26/2011_09_26_drive_000{1,2}_sync/image_02/data"),
    "dates_below": of("{cat,dog}/2021-05-0{3,4}"),
    "years": values("2021", "1990s", "2008_000008"),
    "years_in_words": values("Acura RL Sedan 2012", "BMW M3 2011"),
    "impossible_dates": values("2021-13-01", "20211303", "120210503"),
    "spellings": values("Cat", "cat", "dog", "dog "),
    "spellings_of_gaps": values("golden_retriever", "Golden Retriever "),
    "letters": values("a", "A", "b"),
    "signs": values("1", "-1", "0_1", "0-1"),
    "sharp_s": values("Straße", "STRASSE"),
    "flags": values("[1, 0, 0]", "[0, 1, 0]"),
    "flags_of_numpy": values("[1. 0.]", "[0. 1.]"),
    "flags_with_spaces": values("1 0", "0 1"),
    "one_flag_row": values("[1, 0]"),
    "not_flags": values("10 10", "10 0"),
    "brackets": values("['cat', 'dog']", "['cat']", "owl"),
    "bracket_parts": values("['cat'", "'dog']", "['owl']"),
    "few_brackets": values("[unknown]", "dog", "cat"),
    "missing": values("cat", "dog", "nan"),
    "unicode_forms": values("caf\u00e9", "cafe\u0301"),
    "null_character": values("a\0b", "c"),
    "null_character_alone": values("a\0b", images=4),
    "missing_alone": values("nan", images=4),
    "split_alone": values("val", images=4),
    "null": values("cat", "dog", "NULL"),
    "wrapper": of("pets/{cat,dog}"),
    "nested": values("bird/owl", "bird/duck", "cat"),
}
