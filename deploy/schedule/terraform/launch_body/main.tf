# The body of flexTemplates:launch, as ../../cloud_scheduler_body.json shows it. Needs no provider, so it
# can be tried without an account.

variable "job_name" {
  description = "Name of the job."
  type        = string
}

variable "template" {
  description = "Specification of the Flex Template, gs://BUCKET/.../NAME.json."
  type        = string
}

variable "parameters" {
  description = "Options of `beam-tfrecord convert` as text."
  type        = map(string)
}

variable "worker_service_account" {
  description = "Account of launcher and workers."
  type        = string
}

variable "temp" {
  description = "Folder for Dataflow's own files."
  type        = string
}

variable "subnetwork" {
  description = "regions/REGION/subnetworks/NAME, for workers without public addresses; empty for the default."
  type        = string
}

variable "max_workers" {
  description = "Workers at most."
  type        = number
}

variable "flexrs" {
  description = "Whether the job may wait for up to six hours, and costs less."
  type        = bool
}

locals {
  environment = merge(
    {
      maxWorkers          = var.max_workers
      serviceAccountEmail = var.worker_service_account
      stagingLocation     = "${var.temp}/staging"
      tempLocation        = "${var.temp}/temp"
    },
    # The flag of the command line is COST_OPTIMIZED, the enum of the API FLEXRS_COST_OPTIMIZED.
    var.flexrs ? { flexrsGoal = "FLEXRS_COST_OPTIMIZED" } : {},
    var.subnetwork == "" ? {} : { subnetwork = var.subnetwork, ipConfiguration = "WORKER_IP_PRIVATE" },
  )
}

output "json" {
  description = "The body."
  value = jsonencode({
    launchParameter = {
      jobName              = var.job_name
      containerSpecGcsPath = var.template
      parameters           = var.parameters
      environment          = local.environment
    }
  })
}
