variable "project" {
  description = "Project in which the job runs."
  type        = string
}

variable "region" {
  description = "Region of the job and of the schedule; the region of the buckets is cheapest."
  type        = string
}

variable "template" {
  description = "Specification of the Flex Template, written by deploy/dataflow/build.sh."
  type        = string

  validation {
    condition     = can(regex("^gs://[^/]+/.+\\.json$", var.template))
    error_message = "Expected gs://BUCKET/.../NAME.json."
  }
}

variable "repository" {
  description = "Artifact Registry repository that holds the image, in the same project and region."
  type        = string
}

variable "parameters" {
  description = "Options of `beam-tfrecord convert` as text: flags are true or false, several values a JSON list, {date} in output the day of the launch."
  type        = map(string)

  validation {
    condition     = can(regex("^gs://|^\\[", var.parameters.images)) && can(regex("^gs://[^/]+/.+", var.parameters.output))
    error_message = "Expected at least images and output, each gs://BUCKET/FOLDER."
  }
}

variable "input_buckets" {
  description = "Buckets that hold images, labels and inventories, without gs://."
  type        = set(string)

  validation {
    condition     = length(var.input_buckets) > 0 && alltrue([for name in var.input_buckets : !startswith(name, "gs://")])
    error_message = "Expected at least one bucket name, without gs://."
  }
}

variable "temp" {
  description = "Folder for Dataflow's own files; a separate bucket keeps them apart from data."
  type        = string

  validation {
    condition     = can(regex("^gs://[^/]+/.+[^/]$", var.temp))
    error_message = "Expected gs://BUCKET/FOLDER."
  }
}

variable "job_name" {
  description = "Name of the job. No second job starts while one with this name runs."
  type        = string
  default     = "beam-tfrecord"

  validation {
    condition     = can(regex("^[a-z]([-a-z0-9]*[a-z0-9])?$", var.job_name))
    error_message = "Expected lower-case letters, digits and dashes, starting with a letter."
  }
}

variable "schedule" {
  description = "When the job starts, in cron syntax."
  type        = string
  default     = "0 2 * * *"
}

variable "time_zone" {
  description = "Time zone of the schedule."
  type        = string
  default     = "Etc/UTC"
}

variable "max_workers" {
  description = "Maximum number of workers."
  type        = number
  default     = 20

  validation {
    condition     = var.max_workers >= 1
    error_message = "Expected 1 or more."
  }
}

variable "flexrs" {
  description = "Use FlexRS: the job costs less, and may wait for up to six hours."
  type        = bool
  default     = true
}

variable "most_hours" {
  description = "Dataflow cancels a job that takes longer, its wait with FlexRS included."
  type        = number
  default     = 18

  validation {
    condition     = var.most_hours > 0 && var.most_hours < 24
    error_message = "Expected fewer than 24 hours, so that a night's job ends before the next."
  }
}

variable "create_buckets" {
  description = "Buckets to create, without gs://: name -> days after which objects are deleted, null for never. Give a number to the bucket of temp alone."
  type        = map(number)
  default     = {}
}

variable "subnetwork" {
  description = "regions/REGION/subnetworks/NAME with Private Google Access, for workers without public addresses. Empty: the default network, with public addresses."
  type        = string
  default     = ""
}

variable "alert_email" {
  description = "Address that is told of jobs that fail, launches that are refused, and a day without a new data set; null for none."
  type        = string
  default     = null
}

variable "airflow_member" {
  description = "Member that runs airflow_dag.py, such as serviceAccount:NAME@PROJECT.iam.gserviceaccount.com; null without Airflow."
  type        = string
  default     = null
}

variable "kubernetes" {
  description = "Namespace and service account of kubernetes_cronjob.yaml in a GKE cluster of the project; null without Kubernetes."
  type = object({
    namespace       = string
    service_account = string
  })
  default = null
}
