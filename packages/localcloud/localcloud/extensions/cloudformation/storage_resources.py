"""Tables, buckets, queues and topics, and the policies of resources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from localcloud.extensions.cloudformation.resource_type import (
    Made,
    Request,
    ResourceType,
    call,
    deletes,
    gone,
    tag_list,
    tag_map,
)
from localcloud.extensions.cloudformation.template import TemplateError

NO_QUEUE = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
NO_TOPIC = ("NotFound", "NotFoundException")


def _create_table(request: Request) -> Made:
    name, client = request.name("TableName", 255), request.client("dynamodb")
    later = (
        "TimeToLiveSpecification",
        "PointInTimeRecoverySpecification",
        "ContributorInsightsSpecification",
    )
    encryption = request.properties.get("SSESpecification")
    answer = call(
        request,
        "dynamodb",
        "create_table",
        *later,
        "SSESpecification",
        "StreamSpecification",
        TableName=name,
        Tags=tag_list(request),
        SSESpecification=_table_encryption(encryption) if encryption else None,
    )["TableDescription"]
    ttl = request.properties.get("TimeToLiveSpecification")
    if ttl:
        client.update_time_to_live(TableName=name, TimeToLiveSpecification=dict(ttl))
    return Made(name, {"Arn": answer["TableArn"]})


def _table_encryption(given: Mapping[str, Any]) -> dict[str, Any]:
    key = given.get("KMSMasterKeyId")
    own = {"SSEType": "KMS", "KMSMasterKeyId": key} if key else {}
    return {"Enabled": bool(given.get("SSEEnabled")), **own}


@gone("ResourceNotFoundException")
def _delete_table(request: Request, made: Made) -> None:
    client = request.client("dynamodb")
    if client.describe_table(TableName=made.physical_id)["Table"].get("DeletionProtectionEnabled"):
        raise TemplateError(f"{request.logical_id}: the table has deletion protection")
    client.delete_table(TableName=made.physical_id)


def _create_bucket(request: Request) -> Made:
    name = request.name("BucketName", 63).lower()
    request.client("s3").create_bucket(Bucket=name)
    encryption = request.properties.get("BucketEncryption")
    if encryption:
        _encrypt_bucket(request, name, encryption)
    return Made(name, {"Arn": f"arn:aws:s3:::{name}", "DomainName": f"{name}.s3.amazonaws.com"})


def _encrypt_bucket(request: Request, name: str, encryption: Mapping[str, Any]) -> None:
    rules = [
        {"ApplyServerSideEncryptionByDefault": given["ServerSideEncryptionByDefault"]}
        for given in encryption["ServerSideEncryptionConfiguration"]
    ]
    request.client("s3").put_bucket_encryption(
        Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules}
    )


def _create_queue(request: Request) -> Made:
    name, client = request.name("QueueName", 80), request.client("sqs")
    given = {key: value for key, value in request.properties.items() if key not in ("QueueName", "Tags")}
    attributes = {
        key: json.dumps(value) if isinstance(value, dict | list | bool) else str(value)
        for key, value in given.items()
    }
    url = client.create_queue(QueueName=name, Attributes=attributes, tags=tag_map(request))["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return Made(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})


def _create_topic(request: Request) -> Made:
    name, client = request.name("TopicName", 256), request.client("sns")
    kept = {"DisplayName", "FifoTopic", "KmsMasterKeyId"}
    attributes = {key: str(value) for key, value in request.properties.items() if key in kept}
    arn = client.create_topic(Name=name, Attributes=attributes, Tags=tag_list(request) or [])["TopicArn"]
    return Made(arn, {"TopicArn": arn, "TopicName": name})


def _create_subscription(request: Request) -> Made:
    properties = request.properties
    answer = request.client("sns").subscribe(
        TopicArn=properties["TopicArn"],
        Protocol=properties["Protocol"],
        Endpoint=properties["Endpoint"],
        ReturnSubscriptionArn=True,
    )
    return _set_redrive_policy(request, answer["SubscriptionArn"])


def _set_redrive_policy(request: Request, subscription: str) -> Made:
    """Also without one: an update may take it away."""
    request.client("sns").set_subscription_attributes(
        SubscriptionArn=subscription,
        AttributeName="RedrivePolicy",
        AttributeValue=json.dumps(request.properties.get("RedrivePolicy", {})),
    )
    return Made(subscription, {"Arn": subscription})


def _put_bucket_policy(request: Request, bucket: str) -> Made:
    document = json.dumps(request.properties["PolicyDocument"])
    request.client("s3").put_bucket_policy(Bucket=bucket, Policy=document)
    return Made(bucket)


def _put_topic_policy(request: Request) -> Made:
    """The document *replaces* the topic's policy, the default one of the owner too."""
    document = json.dumps(request.properties["PolicyDocument"])
    for topic in request.properties["Topics"]:
        request.client("sns").set_topic_attributes(
            TopicArn=topic, AttributeName="Policy", AttributeValue=document
        )
    return Made(f"{request.logical_id}-{request.random}", {"topics": list(request.properties["Topics"])})


@gone(*NO_TOPIC)
def _delete_topic_policy(request: Request, made: Made) -> None:
    """CloudFormation leaves the topic with its default policy: the account that owns it."""
    account = request.cloud.settings.account_id
    for topic in made.attributes["topics"]:
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": "*"},
            "Action": ["SNS:Publish", "SNS:Subscribe", "SNS:GetTopicAttributes"],
            "Resource": topic,
            "Condition": {"StringEquals": {"AWS:SourceOwner": account}},
        }
        document = json.dumps({"Version": "2008-10-17", "Statement": [statement]})
        request.client("sns").set_topic_attributes(
            TopicArn=topic, AttributeName="Policy", AttributeValue=document
        )


def _put_queue_policy(request: Request) -> Made:
    document = json.dumps(request.properties["PolicyDocument"])
    for url in request.properties["Queues"]:
        request.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": document})
    return Made(f"{request.logical_id}-{request.random}", {"queues": list(request.properties["Queues"])})


@gone(*NO_QUEUE)
def _delete_queue_policy(request: Request, made: Made) -> None:
    for url in made.attributes["queues"]:
        request.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})


TYPES: dict[str, ResourceType] = {
    "AWS::DynamoDB::Table": ResourceType(_create_table, _delete_table),
    "AWS::S3::Bucket": ResourceType(_create_bucket, deletes("s3", "delete_bucket", "Bucket", "NoSuchBucket")),
    "AWS::S3::BucketPolicy": ResourceType(
        lambda request: _put_bucket_policy(request, request.properties["Bucket"]),
        deletes("s3", "delete_bucket_policy", "Bucket", "NoSuchBucket"),
        lambda request, made: _put_bucket_policy(request, made.physical_id),
        ("Bucket",),
    ),
    "AWS::SNS::Subscription": ResourceType(
        _create_subscription,
        deletes("sns", "unsubscribe", "SubscriptionArn", *NO_TOPIC),
        lambda request, made: _set_redrive_policy(request, made.physical_id),
        ("Endpoint", "Protocol", "TopicArn"),
    ),
    "AWS::SNS::Topic": ResourceType(_create_topic, deletes("sns", "delete_topic", "TopicArn")),
    "AWS::SNS::TopicPolicy": ResourceType(
        _put_topic_policy, _delete_topic_policy, lambda request, made: _put_topic_policy(request), ("Topics",)
    ),
    "AWS::SQS::Queue": ResourceType(_create_queue, deletes("sqs", "delete_queue", "QueueUrl", *NO_QUEUE)),
    "AWS::SQS::QueuePolicy": ResourceType(
        _put_queue_policy, _delete_queue_policy, lambda request, made: _put_queue_policy(request), ("Queues",)
    ),
}
