"""The tests of `tests/gcs`, with MinIO and Azurite: whole jobs, faults, kills, two jobs, reuse."""

from __future__ import annotations

import pytest

from tests.gcs.test_archives import (
    archives,
    test_a_missing_archive_is_named,
    test_archives_in_a_bucket_give_the_bytes_of_local_ones,
)
from tests.gcs.test_convert import (
    photos,
    test_a_job_killed_half_way_leaves_no_shard,
    test_a_shard_of_another_job_is_not_touched,
    test_a_table_in_the_bucket,
    test_an_input_bucket_that_cannot_be_listed,
    test_an_object_that_is_gone_or_may_not_be_read,
    test_an_output_bucket_that_cannot_be_written,
    test_an_output_bucket_that_is_not_there,
    test_class_folders_from_bucket_to_bucket,
    test_each_verb_fails_now_and_then,
    test_names_of_any_characters,
    test_one_request_in_twenty_fails,
    test_overwrite_replaces_an_earlier_data_set,
    test_verify_and_index,
)
from tests.gcs.test_faults import test_a_fault_at_any_request
from tests.gcs.test_questions import (
    test_a_table_among_the_images_is_a_question_that_its_command_answers,
)
from tests.gcs.test_resume import (
    argv,
    test_a_complete_data_set_is_up_to_date,
    test_a_file_of_many_images_that_was_replaced_is_a_change,
    test_killed_jobs_go_on_and_end_in_the_same_objects,
    test_repair_writes_what_is_damaged_or_gone,
)
from tests.gcs.test_reuse import test_unchanged_shards_are_copied_by_the_service
from tests.gcs.test_two_jobs import (
    sides,
    test_a_job_whose_shard_was_replaced_writes_no_manifest,
    test_a_manifest_is_withdrawn_if_a_shard_goes_while_it_is_written,
    test_a_manifest_that_appeared_meanwhile_is_not_replaced,
    test_a_manifest_that_appears_while_overwrite_deletes,
    test_of_two_jobs_one_wins_or_none_and_nothing_is_mixed,
)

pytestmark = pytest.mark.s3

__all__ = [
    "archives",
    "argv",
    "photos",
    "sides",
    "test_a_complete_data_set_is_up_to_date",
    "test_a_fault_at_any_request",
    "test_a_file_of_many_images_that_was_replaced_is_a_change",
    "test_a_job_killed_half_way_leaves_no_shard",
    "test_a_job_whose_shard_was_replaced_writes_no_manifest",
    "test_a_manifest_is_withdrawn_if_a_shard_goes_while_it_is_written",
    "test_a_manifest_that_appeared_meanwhile_is_not_replaced",
    "test_a_manifest_that_appears_while_overwrite_deletes",
    "test_a_missing_archive_is_named",
    "test_a_shard_of_another_job_is_not_touched",
    "test_a_table_among_the_images_is_a_question_that_its_command_answers",
    "test_a_table_in_the_bucket",
    "test_an_input_bucket_that_cannot_be_listed",
    "test_an_object_that_is_gone_or_may_not_be_read",
    "test_an_output_bucket_that_cannot_be_written",
    "test_an_output_bucket_that_is_not_there",
    "test_archives_in_a_bucket_give_the_bytes_of_local_ones",
    "test_class_folders_from_bucket_to_bucket",
    "test_each_verb_fails_now_and_then",
    "test_killed_jobs_go_on_and_end_in_the_same_objects",
    "test_names_of_any_characters",
    "test_of_two_jobs_one_wins_or_none_and_nothing_is_mixed",
    "test_one_request_in_twenty_fails",
    "test_overwrite_replaces_an_earlier_data_set",
    "test_repair_writes_what_is_damaged_or_gone",
    "test_unchanged_shards_are_copied_by_the_service",
    "test_verify_and_index",
]
