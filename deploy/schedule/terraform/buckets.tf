# Buckets that do not exist yet. Data sets are never deleted by age: the newest may be old.

resource "google_storage_bucket" "created" {
  for_each = var.create_buckets

  name                        = each.key
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  dynamic "lifecycle_rule" {
    for_each = each.value == null ? [] : [each.value]

    content {
      action {
        type = "Delete"
      }
      condition {
        age = lifecycle_rule.value
      }
    }
  }

  depends_on = [google_project_service.needed]
}
