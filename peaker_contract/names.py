"""Names and tags of AWS resources that one part of Peaker makes and another one looks up."""

from __future__ import annotations

# Begins the names that people read first in a console: documents, metric namespaces.
FAMILY = "Peaker"
# Ends the name of the topic by which alarms page people.
OPERATOR_ALARMS = "operator-alarms"
# The source of the events that Peaker puts on the default bus.
EVENT_SOURCE = "peaker"
# The environment that is deployed to a local cloud, whose functions run on that machine's own Python.
LOCAL_ENVIRONMENT = "local"
# The account that the local cloud answers as; of AWS's documentation, nobody's.
LOCAL_ACCOUNT = "123456789012"
# Of a cluster: these start runs; the others only look.
STARTING_RULES = ("replica-shortage", "replica-surplus", "scheduled-check")


def prefix(environment: str) -> str:
    """Returns the beginning of most names of an environment: `peaker-prod`."""
    return f"peaker-{environment}"


def named(environment: str, name: str) -> str:
    """A function, a workflow, a rule or an alarm of an environment: `peaker-prod-scale_out`."""
    return f"{prefix(environment)}-{name}"


def of_cluster(environment: str, cluster: str, name: str) -> str:
    """An alarm or a rule of a cluster: `peaker-prod-orders-replica-shortage`. `name` may be empty: a prefix."""
    return f"{prefix(environment)}-{cluster}-{name}"


def replica_alarm_prefix(environment: str, cluster: str) -> str:
    """Returns the beginning of the names of the alarms behind a DNS name; the replica's instance id follows."""
    return of_cluster(environment, cluster, "serves-")


def undelivered(name: str) -> str:
    """The queue of what could not be delivered: of a rule's events, or of the topic's pages."""
    return f"{name}-undelivered"


def failed_invocations(environment: str) -> str:
    """The queue of the invocations that failed where nobody waits for the answer."""
    return named(environment, "failed-invocations")


def operator_topic(environment: str) -> str:
    """The SNS topic by which alarms page people."""
    return named(environment, OPERATOR_ALARMS)


def chat_topic(environment: str) -> str:
    """The SNS topic by which runs are told in chat."""
    return named(environment, "chat")


def ledger_table(environment: str) -> str:
    """The DynamoDB table of what each run made."""
    return named(environment, "ledger")


def document(environment: str, name: str) -> str:
    """An SSM document: `Peaker-prod-prewarm`."""
    return f"{FAMILY}-{environment}-{name}"


def cluster_stack(environment: str, cluster: str) -> str:
    """The CloudFormation stack of a cluster: `Peaker-prod-orders`."""
    return f"{FAMILY}-{environment}-{cluster}"


def cluster_parameters(environment: str) -> str:
    """The folder of the clusters' settings in the Parameter Store, with a slash at its end."""
    return f"/peaker/{environment}/clusters/"


def cluster_parameter(environment: str, cluster: str) -> str:
    """The parameter that holds the settings of a cluster."""
    return f"{cluster_parameters(environment)}{cluster}"


def prices_parameter(environment: str) -> str:
    """The parameter that holds what the AWS Price List said."""
    return f"/peaker/{environment}/prices"


OWNER_TAG = "peaker:owner"
RUN_TAG = "peaker:run-id"
CLUSTER_TAG = "peaker:cluster"
ENVIRONMENT_TAG = "peaker:environment"
ROLE_TAG = "peaker:role"
LOAD_TAG = "peaker:load"
DONOR_TAG = "peaker:donor"
VOLUME_TAG = "peaker:volume"
