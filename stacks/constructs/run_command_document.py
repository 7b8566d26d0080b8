"""An SSM Command document from its YAML file, checked against the document schema before it is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from ssm_documents.schema import load_document


class RunCommandDocument(Construct):
    """One Command document; a changed file becomes a new version of the same document.

    `values` are written where the file has `{% name %}`. Raises InvalidDocument when the file breaks the schema.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, path: Path, values: Mapping[str, str]
    ) -> None:
        super().__init__(scope, construct_id)
        ssm.CfnDocument(
            self,
            "Document",
            name=name,
            content=load_document(path, values),
            document_type="Command",
            document_format="YAML",
            target_type="/AWS::EC2::Instance",
            update_method="NewVersion",
        )
