"""What the CDK command runs: `npx cdk deploy -c env=prod '**'`."""

import sys

from stacks.application import build_app
from stacks.synth import synthesize

sys.exit(synthesize(build_app))
