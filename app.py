"""What the CDK command runs: `npx cdk deploy -c env=prod '**'`."""

from stacks.application import build_app

build_app().synth()
