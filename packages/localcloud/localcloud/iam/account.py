"""The account as IAM sees it: roles and their policies, the policies of resources, tags. Read from moto, live."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from localcloud.iam.decision import Caller, Policies
from localcloud.iam.policy import PolicyDocument, Tags, parse

AWS_KEYS = "alias/aws/"


class Account:
    """One account in one region: what weighs upon a call, and what needs are worked out from besides the request."""

    def __init__(self, account_id: str, region: str) -> None:
        self.account_id = account_id
        self.region = region
        self._role_ids: dict[str, str] = {}  # by ARN; each request asks for its caller's role some times

    # -- who may what ------------------------------------------------------------------------------------------

    def role(self, role_arn: str) -> Any | None:
        """moto's record of a role by its ARN."""
        roles = self._iam.roles
        found = roles.get(self._role_ids.get(role_arn))
        if found is None or found.arn != role_arn:
            found = next((role for role in list(roles.values()) if role.arn == role_arn), None)
            if found is not None:
                self._role_ids[role_arn] = found.id
        return found

    def identity_policies(self, identity: str) -> Iterator[PolicyDocument]:
        """Of a role or a user (ARN), inline and managed, with those of the user's groups."""
        holders: list[Any]
        if ":role/" in identity:
            role = self.role(identity)
            holders = [role] if role is not None else []
        else:
            user = next((one for one in list(self._iam.users.values()) if one.arn == identity), None)
            groups = self._iam.get_groups_for_user(user.name) if user is not None else []
            holders = [user, *groups] if user is not None else []
        for holder in holders:
            for document in list(holder.policies.values()):
                yield parse(_text(document))
            for managed in list(holder.managed_policies.values()):
                yield parse(_default_version(managed))

    def boundary(self, identity: str) -> PolicyDocument | None:
        role = self.role(identity) if ":role/" in identity else None
        arn = role.permissions_boundary_arn if role is not None else None
        return parse(_default_version(self._iam.get_policy(arn))) if arn else None

    def principal_tags(self, identity: str) -> Tags:
        role = self.role(identity) if ":role/" in identity else None
        tags = getattr(role, "tags", None) or {}
        return {
            str(key): str(each["Value"] if isinstance(each, dict) else each)
            for key, each in dict(tags).items()
        }

    def trusts(self, role_arn: str) -> PolicyDocument | None:
        role = self.role(role_arn)
        return parse(_text(role.assume_role_policy_document)) if role is not None else None

    def policies(self, caller: Caller, resource: str, session: PolicyDocument | None) -> Policies:
        """Everything that bears on the caller and the resource."""
        service = resource.split(":")[2] if resource.startswith("arn:") else ""
        return Policies(
            identity=tuple(self.identity_policies(caller.identity)) if caller.identity else (),
            boundary=self.boundary(caller.identity) if caller.identity else None,
            session=session,
            resource=self.resource_policy(resource),
            resource_speaks_first=service == "kms",
        )

    def resource_policy(self, resource: str) -> PolicyDocument | None:
        """The policy that the resource itself has; None where it has none."""
        if not resource.startswith("arn:"):
            return None
        _, _, service, _, _, name = resource.split(":", 5)
        find: dict[str, Callable[[str], str | None]] = {
            "s3": self._bucket_policy,
            "sns": lambda _: self._topic_policy(resource),
            "sqs": self._queue_policy,
            "lambda": self._function_policy,
            "kms": self._key_policy,
            "logs": lambda _: self._log_policy(),
        }
        text = find[service](name) if service in find else None
        return parse(text) if text else None

    def _bucket_policy(self, name: str) -> str | None:
        from moto.s3.models import s3_backends

        bucket = s3_backends[self.account_id]["aws"].buckets.get(name.split("/", 1)[0])
        return _text(bucket.policy) if bucket is not None and bucket.policy else None

    def _topic_policy(self, topic_arn: str) -> str | None:
        from moto.sns.models import sns_backends

        topic = sns_backends[self.account_id][self.region].topics.get(topic_arn)
        return str(topic.policy) if topic is not None else None

    def _queue_policy(self, name: str) -> str | None:
        from moto.sqs.models import sqs_backends

        queue = sqs_backends[self.account_id][self.region].queues.get(name)
        policy = queue.policy if queue is not None else None
        return _text(policy) if policy else None

    def _function_policy(self, name: str) -> str | None:
        from moto.awslambda_simple.models import lambda_simple_backends

        functions = lambda_simple_backends[self.account_id][self.region]._lambdas._functions
        record = functions.get(name.split(":")[1])
        if record is None or record["latest"] is None:
            return None
        statements = list(record["latest"].policy.statements)
        return json.dumps({"Version": "2012-10-17", "Statement": statements}) if statements else None

    def _key_policy(self, name: str) -> str | None:
        key = self._keys.get(name.removeprefix("key/"))
        return str(key.policy) if key is not None else None

    def _log_policy(self) -> str | None:
        from moto.logs.models import logs_backends

        found = list(logs_backends[self.account_id][self.region].resource_policies.values())
        statements = [each for one in found for each in _statements(one.policy_document)]
        return json.dumps({"Version": "2012-10-17", "Statement": statements}) if statements else None

    # -- what a request needs ----------------------------------------------------------------------------------

    def ec2_tags(self, resource_id: str) -> Tags:
        return {str(key): str(value) for key, value in dict(self._ec2.tags.get(resource_id, {})).items()}

    def volumes_of(self, instance_id: str) -> list[tuple[str, bool]]:
        """(volume id, whether it is the root volume) of each attached volume."""
        instance = next((one for one in self._ec2.all_instances() if one.id == instance_id), None)
        if instance is None:
            return []
        mapping = dict(instance.block_device_mapping)
        return [(each.volume_id, device == instance.root_device_name) for device, each in mapping.items()]

    def default_subnet(self, zone: str | None) -> str:
        subnets = [subnet for zones in self._ec2.subnets.values() for subnet in zones.values()]
        fitting = [
            one for one in subnets if one.default_for_az == "true" and zone in (None, one.availability_zone)
        ]
        return str(fitting[0].id) if fitting else "*"

    def default_security_group(self, subnet_id: str) -> str:
        vpcs = [
            one.vpc_id
            for zones in self._ec2.subnets.values()
            for one in zones.values()
            if one.id == subnet_id
        ]
        groups = [group for vpc in vpcs for group in self._ec2.groups.get(vpc, {}).values()]
        return next((str(group.id) for group in groups if group.name == "default"), "*")

    def role_of_profile(self, name_or_arn: str) -> str | None:
        for profile in list(self._iam.instance_profiles.values()):
            if name_or_arn in (profile.name, profile.arn):
                return str(profile.roles[0].arn) if profile.roles else None
        return None

    def snapshot_of_image(self, image_id: str) -> str | None:
        """The snapshot that a root volume is made from."""
        image = self._ec2.amis.get(image_id)
        return None if image is None else str(image.ebs_snapshot.id)

    def key_of_snapshot(self, snapshot_id: str) -> str | None:
        snapshot = self._ec2.snapshots.get(snapshot_id)
        return self.customer_key(getattr(snapshot, "kms_key_id", None))

    def customer_key(self, key_id: str | None) -> str | None:
        """The ARN of a customer-managed key by id, alias or ARN; None for AWS's own keys and for none."""
        if not key_id:
            return None
        name = key_id.split(":", 5)[-1].removeprefix("key/")
        for key in list(self._keys.values()):
            aliases = set(key.aliases)
            if name == key.id or name in aliases:
                return None if any(one.startswith(AWS_KEYS) for one in aliases) else str(key.arn)
        return None

    def hash_key(self, table: str) -> str | None:
        from moto.dynamodb.models import dynamodb_backends

        found = dynamodb_backends[self.account_id][self.region].tables.get(table)
        return str(found.hash_key_attr) if found is not None else None

    def key_of_table(self, table_arn: str) -> str | None:
        from moto.dynamodb.models import dynamodb_backends

        name = table_arn.split("table/", 1)[-1].split("/")[0]
        found = dynamodb_backends[self.account_id][self.region].tables.get(name)
        return self.customer_key((getattr(found, "sse_specification", None) or {}).get("KMSMasterKeyId"))

    def key_of_object(self, bucket: str, key: str) -> str | None:
        from moto.s3.models import s3_backends

        holder = s3_backends[self.account_id]["aws"].buckets.get(bucket)
        item = holder.keys.get(key) if holder is not None else None
        if item is None:
            return None
        own = self.customer_key(getattr(item, "kms_key_id", None))
        return own or self.key_of_bucket(bucket)

    def key_of_bucket(self, bucket: str) -> str | None:
        from moto.s3.models import s3_backends

        holder = s3_backends[self.account_id]["aws"].buckets.get(bucket)
        rule = ((holder.encryption or {}) if holder is not None else {}).get("Rule", {})
        rules = rule if isinstance(rule, list) else [rule]
        default = (rules[0] if rules else {}).get("ApplyServerSideEncryptionByDefault", {})
        return self.customer_key(default.get("KMSMasterKeyID"))

    def key_of_topic(self, topic_arn: str) -> str | None:
        from moto.sns.models import sns_backends

        topic = sns_backends[self.account_id][self.region].topics.get(topic_arn)
        return self.customer_key(getattr(topic, "kms_master_key_id", None))

    def key_of_queue(self, queue_arn: str) -> str | None:
        from moto.sqs.models import sqs_backends

        queue = sqs_backends[self.account_id][self.region].queues.get(queue_arn.rsplit(":", 1)[-1])
        return self.customer_key(getattr(queue, "kms_master_key_id", None))

    # -- moto --------------------------------------------------------------------------------------------------

    @property
    def _iam(self) -> Any:
        from moto.iam.models import iam_backends

        return iam_backends[self.account_id]["aws"]

    @property
    def _ec2(self) -> Any:
        from moto.ec2.models import ec2_backends

        return ec2_backends[self.account_id][self.region]

    @property
    def _keys(self) -> Any:
        from moto.kms.models import kms_backends

        return kms_backends[self.account_id][self.region].keys


def _text(document: Any) -> str:
    if isinstance(document, bytes):
        return document.decode()
    return document if isinstance(document, str) else json.dumps(document)


def _default_version(managed: Any) -> str:
    return _text(next(one.document for one in managed.versions if one.is_default))


def _statements(document: Any) -> list[Any]:
    found = json.loads(_text(document)).get("Statement", [])
    return found if isinstance(found, list) else [found]
